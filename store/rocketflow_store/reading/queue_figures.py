"""Bytes and times of a stretch of a queue. What cannot be read is unknown (None), never 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from rocketflow_store.reading.store_reader import StoreReader

_UNITS_AT_A_TIME: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueSize:
    """What a queue holds: bytes of records in the log, store times of its first and its last message (ms)."""

    bytes: int | None
    begin_timestamp: int | None
    end_timestamp: int | None


def queue_size(reader: StoreReader, topic: str, queue_id: int, low: int, high: int) -> QueueSize:
    """Return the size of queue offsets [low, high); times are None for an empty range."""
    if low >= high:
        return QueueSize(0, None, None)
    first, last = (stored_at(reader, topic, queue_id, offset) for offset in (low, high - 1))
    return QueueSize(record_bytes(reader, topic, queue_id, low, high), first, last)


def record_bytes(reader: StoreReader, topic: str, queue_id: int, start: int, end: int) -> int | None:
    """Return the bytes of the records at queue offsets [start, end), None where units are missing."""
    total = 0
    for first in range(start, end, _UNITS_AT_A_TIME):
        try:
            units = reader.read_units(topic, queue_id, first, min(first + _UNITS_AT_A_TIME, end))
        except StoreError:
            return None
        total += int(units["msg_size"].sum())
    return total


def stored_at(reader: StoreReader, topic: str, queue_id: int, offset: int) -> int | None:
    """Return when the message at `offset` was stored (ms), None where it cannot be read."""
    try:
        for batch in reader.read(topic, queue_id, offset, offset + 1, ["storeTimestamp"]):
            if batch.num_rows:
                return int(batch.column(0).cast("int64")[0].as_py()) // 1000
    except StoreError:
        return None
    return None
