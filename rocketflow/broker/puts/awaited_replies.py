"""Requests whose clients wait for replies: who sent them, and to which topic.

RocketMQ's brokers keep none, and pass every reply on to the client that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.aio.loop import monotonic_ms
from rocketflow_store.spi.broker import decode_properties

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rocketflow.access.guard import Sender
    from rocketflow.aio.server import Request
    from rocketflow_store.spi.broker import RawMessage

MOST: Final = 50_000
"""Requests that are kept; the oldest go first."""

_MOST_TEXT: Final = 512
_USUAL_MS: Final = 60_000
_LEAST_MS: Final = 10_000
_MOST_MS: Final = 600_000
"""How long a request is kept: its TTL within these limits, the first without one."""


class Awaited(NamedTuple):
    """A request: who sent it, its topic, and until when a reply to it counts (ms)."""

    sender: Sender
    topic: str
    deadline_ms: int


class AwaitedReplies:
    """The requests that a broker with accounts has stored lately, by the client that waits and its correlation id."""

    def __init__(self, sender_of: Callable[[Request], Sender], most: int = MOST) -> None:
        self._sender_of = sender_of
        self._most = most
        self._requests: dict[tuple[str, str], Awaited] = {}

    def note(self, message: RawMessage, request: Request) -> None:
        """Keep a message that is to be stored, if it wants a reply; the first with an id stays while its time lasts."""
        properties = decode_properties(message.properties)
        key = reply_key(properties)
        now_ms = monotonic_ms()
        if key is None or max(map(len, key)) > _MOST_TEXT:
            return
        known = self._requests.get(key)
        if known is not None and known.deadline_ms >= now_ms:
            return
        ttl = properties.get("TTL", "")
        wanted_ms = int(ttl) if ttl.isascii() and ttl.isdigit() and len(ttl) < 10 else _USUAL_MS
        deadline_ms = now_ms + max(_LEAST_MS, min(wanted_ms, _MOST_MS))
        self._requests.pop(key, None)
        self._requests[key] = Awaited(self._sender_of(request), message.topic, deadline_ms)
        while len(self._requests) > self._most:
            del self._requests[next(iter(self._requests))]

    def find(self, key: tuple[str, str]) -> Awaited | None:
        """Return the request that a reply with this key is for, None if there is none or its time is over."""
        found = self._requests.get(key)
        return None if found is None or found.deadline_ms < monotonic_ms() else found


def reply_key(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the client that waits and the correlation id, as request and reply name them; None without a client."""
    client_id = properties.get("REPLY_TO_CLIENT")
    return None if client_id is None else (client_id, properties.get("CORRELATION_ID", ""))
