"""The record that is sent in place of a message that Kafka refused: key and headers as far as they fit, and why."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.record_sizes import batch_size, header_size
from rocketflow.kafka.shared.refusal_limits import MAX_BODY, MAX_HEADERS, MAX_KEY, MAX_WHY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.kafka.shared.record_sizes import Header


_ROOM: Final = 64
"""More than the numbers that tell of lengths change by when a body is cut."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """What is sent in place of a message of the store."""

    key: bytes | None
    value: bytes
    headers: list[Header]


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that Kafka would not take, of `origin` (topic:queue:offset); `timestamp` is in ms."""

    origin: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp: int | None


def refused_record(message: RefusedMessage, why: str, most: int) -> RefusedRecord:
    """Return the record for a message: its key and headers as far as `most` bytes allow.

    `most` is what a record batch may have; headers `refused.*` tell what became of the message.
    """
    key, headers = message.key, message.headers
    whole = message.value or b""
    told: list[Header] = [
        (names.ORIGIN_HEADER, message.origin.encode()),
        ("refused", why[:MAX_WHY].encode()),
        ("refused.value-size", str(len(whole)).encode()),
        ("refused.value-sha256", hashlib.sha256(whole).hexdigest().encode()),
    ]
    if message.timestamp is not None:
        told.append(("refused.timestamp", str(message.timestamp).encode()))
    kept_key = None if key is None else key[: min(MAX_KEY, most // 4)]
    if key is not None and kept_key != key:
        told.append(("refused.key-size", str(len(key)).encode()))
    left_out: Header = ("refused.headers-left-out", str(len(headers)).encode())
    room = min(most - batch_size(kept_key, b"", [*told, left_out]) - _ROOM, MAX_HEADERS)
    kept: list[Header] = []
    for one in headers:
        room -= header_size(*one)
        if room < 0:
            told.append((left_out[0], str(len(headers) - len(kept)).encode()))
            break
        kept.append(one)
    room = most - batch_size(kept_key, b"", [*told, *kept]) - _ROOM
    return RefusedRecord(kept_key, whole[: max(min(room, MAX_BODY), 0)], [*told, *kept])
