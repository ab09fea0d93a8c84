"""Signatures of requests, and the marks by which a server notices a request that it has already seen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rocketflow.remoting.signature import ACCESS_KEY, is_signed, mark_of, verified_content

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.signature import RequestMark

LOG: Final = logging.getLogger("rocketflow.access")

VALID_SECONDS: Final = 300
"""Seconds by which the time of a mark may differ from the server's."""

MOST_CLIENTS: Final = 20_000
NUMBERS: Final = 1_024
"""Newest numbers of a client that are distinguished; older ones count as seen."""

SignatureCheck = Callable[["Command", str, str], str | None]
"""Return why a request is not one that the holder of a secret sent now, None if it is; `otherwise` for its signature.

Raises HeaderError.
"""


def check_signature(command: Command, secret_key: str, otherwise: str) -> str | None:
    """Check the signature alone."""
    return None if is_signed(command, secret_key) else otherwise


class SeenRequests:
    """The marks of signed requests that a server has taken; those of RocketMQ's clients have none."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._clients: dict[tuple[str, str], _Seen] = {}
        self._forgotten_ms = 0
        """Requests of unknown clients up to this time count as seen."""

    def __len__(self) -> int:
        """Return the number of clients that are remembered."""
        return len(self._clients)

    def check(self, command: Command, secret_key: str, otherwise: str) -> str | None:
        """Check signature and mark, once for each request: it is seen then."""
        content = verified_content(command, secret_key)
        return otherwise if content is None else self.take(command, content)

    def take(self, command: Command, content: bytes) -> str | None:
        """Check the mark of a request whose client has signed a content."""
        try:
            mark = mark_of(command, content)
        except ValueError as error:
            return f"the signature belongs to another request: {error}"
        return None if mark is None else self._take(command.fields[ACCESS_KEY], mark)

    def _take(self, access_key: str, mark: RequestMark) -> str | None:
        """Return why a mark is refused; None if it is new, and it is seen from then on."""
        now_ms = int(self._clock() * 1000)
        late_ms = now_ms - mark.time_ms
        if abs(late_ms) > VALID_SECONDS * 1000:
            side = "behind" if late_ms > 0 else "ahead of"
            return (
                f"the request was signed at a time {abs(late_ms) // 1000:,} s {side} the server's clock, "
                f"{VALID_SECONDS} s are allowed: set the clock of the client or the server"
            )
        client = self._clients.get((access_key, mark.client))
        if client is None:
            if mark.time_ms <= self._forgotten_ms:
                return "the request is older than those of which this server knows that they are new: send it again"
            if len(self._clients) >= MOST_CLIENTS:
                self._forget(now_ms)
            client = self._clients[access_key, mark.client] = _Seen()
        if not client.take(mark):
            return "the request has been sent before: a signature with a mark counts once"
        return None

    def _forget(self, now_ms: int) -> None:
        """Forget the clients whose marks are too old to count, or the tenth that was silent longest."""
        by_age = sorted(self._clients.items(), key=lambda one: one[1].newest_ms)
        expired_ms = now_ms - VALID_SECONDS * 1000
        for key, client in by_age[: MOST_CLIENTS // 10]:
            self._forgotten_ms = max(self._forgotten_ms, client.newest_ms)
            del self._clients[key]
        for key, client in by_age[MOST_CLIENTS // 10 :]:
            if client.newest_ms >= expired_ms:
                break
            del self._clients[key]
        if self._forgotten_ms >= expired_ms:
            LOG.warning("more than %d clients signed requests within %d s", MOST_CLIENTS, 2 * VALID_SECONDS)


class _Seen:
    """The numbers of one client: the highest, and a bit for each of those before it."""

    __slots__ = ("_bits", "_highest", "newest_ms")

    def __init__(self) -> None:
        self._highest = self._bits = self.newest_ms = 0

    def take(self, mark: RequestMark) -> bool:
        """Return whether the number of a mark is new; it is seen from then on."""
        self.newest_ms = max(self.newest_ms, mark.time_ms)
        ahead = mark.number - self._highest
        if ahead > 0:
            self._bits = (self._bits << ahead | 1) & ((1 << NUMBERS) - 1) if ahead < NUMBERS else 1
            self._highest = mark.number
            return True
        bit = 1 << -ahead
        if -ahead >= NUMBERS or self._bits & bit:
            return False
        self._bits |= bit
        return True
