"""Timer messages that a broker of RocketMQ delivered while it ran on the directory between two RocketFlow commits.

The broker's files record its progress only roughly. The log records it exactly: a message that a timer delivered has
the property TIMER_DEQUEUE_MS and identifies the message. So the log is searched for that name after the last RocketFlow
commit.
"""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc

from rocketflow_store.commits.batch_commit import commit_at, commit_places
from rocketflow_store.delivery.timer.timer_rows import born_timestamps, identities
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.log.readable_runs import readable_runs
from rocketflow_store.model.errors import StoreError, UnreadableError
from rocketflow_store.model.property_names import (
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_TIMER_DEQUEUE_MS,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_TIMER_ROLL_TIMES,
)
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.properties import integers

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.delivery.timer.timer_rows import TimerReads
    from rocketflow_store.files.mapped.mapped_file import MappedFile

_NAME: Final = f"{PROPERTY_TIMER_DEQUEUE_MS}\x01".encode()
_BLOCK: Final = 4 << 20


def broker_deliveries(reads: TimerReads, start: int, stop: int, sink_id: str) -> Counter[str]:
    """Count the deliveries of a broker in `[start, stop)` of the log, by message (`timer_rows.identities`)."""
    found: Counter[str] = Counter()
    commits = _commit_ranges(reads, start, sink_id)
    for mapped in reads.log_files:
        low, high = max(start, mapped.file_from_offset), min(stop, mapped.end_offset)
        if low < high:
            hits = _outside(commits, _hits(mapped, low, high))
            if len(hits):
                _count(reads, mapped, (low, high), hits, found)
    return found


def _commit_ranges(reads: TimerReads, start: int, sink_id: str) -> list[tuple[int, int]]:
    """Return `[begin, end)` of each RocketFlow commit at or after `start`."""
    places = takewhile(lambda place: place >= start, commit_places(reads, sink_id))
    envelopes = (commit_at(reads, place, sink_id) for place in places)
    return [(one.begin_offset, one.end_offset) for one in envelopes if one is not None]


def _outside(commits: list[tuple[int, int]], phy_offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the offsets that are in none of the commits."""
    for begin, end in commits:
        phy_offsets = phy_offsets[(phy_offsets < begin) | (phy_offsets >= end)]
    return phy_offsets


def _hits(mapped: MappedFile, low: int, high: int) -> npt.NDArray[np.int64]:
    """Return the physical offsets of the property name in `[low, high)`."""
    found: list[int] = []
    base = mapped.file_from_offset
    parts = [(at, min(at + _BLOCK, high)) for at in range(low, high, _BLOCK)]
    while parts:
        at, stop = parts.pop()
        smallest = stop - at <= PAGE_BYTES
        block = _bytes_of(mapped, at - base, min(stop + len(_NAME) - 1, high) - base)
        if block is None and not smallest:  # halve the range: the pages beside an unreadable page may hold deliveries
            middle = at + (stop - at) // 2
            parts += [(at, middle), (middle, stop)]
            continue
        if block is None:
            block = _bytes_of(mapped, at - base, stop - base) or b""
        place = block.find(_NAME)
        while place >= 0:
            found.append(at + place)
            place = block.find(_NAME, place + 1)
    return np.unique(np.array(found, np.int64))


def _bytes_of(mapped: MappedFile, start: int, stop: int) -> bytes | None:
    try:
        return bytes(mapped.bytes_of(start, stop))
    except UnreadableError:
        return None


def _count(
    reads: TimerReads,
    mapped: MappedFile,
    bounds: tuple[int, int],
    hits: npt.NDArray[np.int64],
    found: Counter[str],
) -> None:
    """Count the deliveries among the records of `[start, stop)` = `bounds` that contain one of `hits`."""
    base, (start, stop) = mapped.file_from_offset, bounds
    for positions, sizes in readable_runs(mapped, start - base, stop - base, reads.record_boundaries()):
        end = int(positions[-1] + sizes[-1])
        rows = np.searchsorted(positions, hits - base, side="right") - 1
        rows = np.unique(rows[(rows >= 0) & (hits - base < end)])
        if len(rows):
            _count_records(reads, mapped, positions[rows], sizes[rows], found)
        hits = hits[hits - base >= end]
        if len(hits) == 0:
            return


def _count_records(
    reads: TimerReads,
    mapped: MappedFile,
    positions: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    found: Counter[str],
) -> None:
    readable = [_is_readable(mapped, *one) for one in zip(positions.tolist(), sizes.tolist(), strict=True)]
    records = RecordColumns(mapped.buffer, positions[readable], sizes[readable])
    records.check_own_offset(mapped.file_from_offset)
    faults = reads.log.faults(records, mapped, bodies=False)
    if faults:
        records = records.keep(np.setdiff1d(np.arange(records.count), list(faults)))
    if records.count == 0:
        return
    segments = records.property_segments()
    rolls, _ = integers(segments.column(PROPERTY_TIMER_ROLL_TIMES))
    due, with_due = integers(segments.column(PROPERTY_TIMER_OUT_MS))
    queue_ids, with_queue = integers(segments.column(PROPERTY_REAL_QUEUE_ID))
    real = pc.equal(records.topics(), segments.column(PROPERTY_REAL_TOPIC)).fill_null(False)
    delivered = with_due & with_queue & np.asarray(real).astype(bool)
    delivered &= np.asarray(segments.column(PROPERTY_TIMER_DEQUEUE_MS).is_valid()).astype(bool)
    delivered &= (queue_ids == records.field(">i4", 12)) & (records.after_born_host(">i8", 56) >= due)
    rows = np.flatnonzero(delivered)
    if len(rows):
        names = identities(segments, born_timestamps(records), rolls)
        found.update(names.take(rows.tolist()).to_pylist())


def _is_readable(mapped: MappedFile, start: int, size: int) -> bool:
    try:
        mapped.populate(start, start + size)
    except StoreError:
        return False
    return True
