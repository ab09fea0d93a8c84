"""Bytes and times of a range of a queue. Figures that cannot be read are unknown (None), never 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.reading.store_reader import StoreReader
    from rocketflow_store.reading.store_reads import StoreReads

_UNITS_AT_A_TIME: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class QueueSize:
    """Size of a queue: bytes of records in the log, store times of its first and its last message (ms)."""

    bytes: int | None
    begin_timestamp: int | None
    end_timestamp: int | None


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """Size of the index: files, entries, store times of its first and its last message (ms; 0 without files)."""

    files: int
    entries: int
    begin_timestamp: int
    end_timestamp: int


@dataclass(frozen=True, slots=True)
class LogFigures:
    """Layout of the log: number of files, bytes of each, and their directories."""

    files: int
    file_size: int
    directories: tuple[str, ...]


def log_figures(reader: StoreReader) -> LogFigures:
    """Return the layout of the log."""
    paths = reader.paths
    size = reader.config.mapped_file_size_commit_log
    return LogFigures(len(reader.log_files), size, tuple(str(one) for one in paths.commit_logs))


def consumer_offset_files(reader: StoreReader) -> list[str]:
    """Return the files with consumers' offsets that exist."""
    return [str(one) for one in reader.paths.consumer_offsets if one.exists()]


def index_figures(reader: StoreReader) -> IndexFigures:
    """Return the figures in the headers of the index files."""
    files = reader.index.files
    return IndexFigures(
        len(files),
        sum(one.entries for one in files),
        files[0].header.begin_timestamp if files else 0,
        files[-1].header.end_timestamp if files else 0,
    )


def queues_without_files(reader: StoreReader, queues: Mapping[tuple[str, int], tuple[int, int]]) -> int:
    """Return how many of `queues`, bounds by (topic, queue id), are known to have messages but have no file."""
    found, batch = 0, set(reader.batch_names())
    for key, (low, high) in queues.items():
        queue = reader.find_batch(*key) if key in batch else reader.find(*key)
        found += low < high and queue is not None and queue.file_count == 0
    return found


def queue_size(reader: StoreReader, topic: str, queue_id: int, low: int, high: int) -> QueueSize:
    """Return the size of queue offsets [low, high); times are None for an empty range."""
    if low >= high:
        return QueueSize(0, None, None)
    first, last = (stored_at(reader, topic, queue_id, offset) for offset in (low, high - 1))
    return QueueSize(record_bytes(reader, topic, queue_id, low, high), first, last)


def record_bytes(reader: StoreReader, topic: str, queue_id: int, start: int, end: int) -> int | None:
    """Return the bytes of the records at queue offsets [start, end), None if units are missing."""
    total = 0
    for first in range(start, end, _UNITS_AT_A_TIME):
        try:
            units = reader.read_units(topic, queue_id, first, min(first + _UNITS_AT_A_TIME, end))
        except StoreError:
            return None
        total += int(units["msg_size"].sum())
    return total


def stored_at(reader: StoreReads, topic: str, queue_id: int, offset: int) -> int | None:
    """Return when the message at `offset` was stored (ms), None if it cannot be read."""
    try:
        for batch in reader.read(topic, queue_id, offset, offset + 1, ["storeTimestamp"]):
            if batch.num_rows:
                return int(batch.column(0).cast("int64")[0].as_py()) // 1000
    except StoreError:
        return None
    return None
