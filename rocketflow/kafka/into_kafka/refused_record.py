"""The quarantine record of a message that Kafka refused: the reason, and as much of the message as fits."""

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
"""More bytes than the length fields can shrink or grow when a body is cut."""


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """The record that is sent instead of a refused message."""

    key: bytes | None
    value: bytes
    headers: list[Header]


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that Kafka refused; `origin` is its topic:queue:offset, `timestamp` is in ms."""

    origin: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp: int | None


def refused_record(message: RefusedMessage, why: str, most: int) -> RefusedRecord:
    """Return the quarantine record of a message, at most `most` bytes as a record batch.

    Key, headers and value are cut to fit. Headers `refused.*` have the reason and the original sizes.
    """
    key, headers = message.key, message.headers
    value = message.value or b""
    report: list[Header] = [
        (names.ORIGIN_HEADER, message.origin.encode()),
        ("refused", why[:MAX_WHY].encode()),
        ("refused.value-size", str(len(value)).encode()),
        ("refused.value-sha256", hashlib.sha256(value).hexdigest().encode()),
    ]
    if message.timestamp is not None:
        report.append(("refused.timestamp", str(message.timestamp).encode()))
    kept_key = None if key is None else key[: min(MAX_KEY, most // 4)]
    if key is not None and kept_key != key:
        report.append(("refused.key-size", str(len(key)).encode()))
    omitted: Header = ("refused.headers-left-out", str(len(headers)).encode())
    room = min(most - batch_size(kept_key, b"", [*report, omitted]) - _ROOM, MAX_HEADERS)
    kept: list[Header] = []
    for one in headers:
        room -= header_size(*one)
        if room < 0:
            report.append((omitted[0], str(len(headers) - len(kept)).encode()))
            break
        kept.append(one)
    room = most - batch_size(kept_key, b"", [*report, *kept]) - _ROOM
    return RefusedRecord(kept_key, value[: max(min(room, MAX_BODY), 0)], [*report, *kept])
