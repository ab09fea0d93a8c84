"""Single records as bytes: by their place in the log, and by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.format.record import MIN_RECORD_SIZE, SIZE_AND_MAGIC
from rocketflow_store.model.errors import StoreError, WouldBlockError
from rocketflow_store.reading.faults import SkipFaults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.reading.read_sources import ReadSources

_LATE_MS: Final = 999
"""RocketMQ compares the end of a query's time with the whole seconds of the index: its answers have these too."""


class QueryResult(NamedTuple):
    """Records found by key, one after the other in `data`; `sizes` are their sizes in bytes."""

    data: bytes
    sizes: Sequence[int]
    index_end_ms: int
    """Store time (ms) of the newest record in the index; 0 if there is none."""
    index_end_phy_offset: int
    """Physical offset of the newest record in the index; 0 if there is none."""


def read_record(reads: ReadSources, phy_offset: int, *, nowait: bool = False) -> bytes | None:
    """Return the record that begins at `phy_offset`, or None: see `WritingStore.read_record`."""
    log = reads.log
    mapped = log.file_at(phy_offset)
    if mapped is None:
        return None
    position = phy_offset - mapped.file_from_offset
    head = bytearray(SIZE_AND_MAGIC.size)
    if mapped.read_into(position, head, nowait=nowait) < len(head):
        if nowait:
            raise WouldBlockError(mapped.path)
        return None
    size = SIZE_AND_MAGIC.unpack(head)[0]
    if not MIN_RECORD_SIZE <= size <= mapped.file_size - position:
        return None
    record = bytearray(size)
    if mapped.read_into(position, record, nowait=nowait) < size:
        if nowait:
            raise WouldBlockError(mapped.path)
        return None
    try:
        log.check_copy(memoryview(record), 0, phy_offset)
    except StoreError:
        return None
    return bytes(record) if reads.lookup.at(phy_offset) is not None else None


def query_records(
    reads: ReadSources, topic: str, key: str, max_count: int, within_ms: tuple[int, int], max_bytes: int
) -> QueryResult:
    """Return records of `topic` with `key`, oldest first: see `WritingStore.query_records`."""
    records: list[bytes] = []
    total = 0
    for message in reads.lookup.by_key(topic, key, max_count, *within_ms, SkipFaults(), late_ms=_LATE_MS):
        record = read_record(reads, message.physical_offset)
        if record is None:  # retention removed it meanwhile
            continue
        if records and total + len(record) > max_bytes:
            break
        records.append(record)
        total += len(record)
    files = reads.index.files
    newest = files[-1].header if files else None
    ends = (newest.end_timestamp, newest.end_phy_offset) if newest is not None else (0, 0)
    return QueryResult(b"".join(records), [len(one) for one in records], *ends)
