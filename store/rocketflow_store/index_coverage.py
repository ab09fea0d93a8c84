"""What a store's index speaks for: a key that it does not name is nowhere in that part of the log, and may be elsewhere.

Index entries follow the log, so the index covers a range as far as no record with keys lies between the last entry of
one file and the first of the next, before the first file, or behind the last one. Damage inside a file is not looked
for here; that is `verify`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.message import PROPERTY_KEYS, PROPERTY_UNIQ_KEY, TRANSACTION_MASK, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rocketflow_store.columnar.decode import RecordColumns
    from rocketflow_store.index_file import IndexFile
    from rocketflow_store.log_view import CommitLogView

_CHUNK_RECORDS = 1024


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """Physical offsets [begin, end) in which the index names every key; `complete` where that is the whole log."""

    begin_phy_offset: int
    end_phy_offset: int
    complete: bool


def index_coverage(files: Sequence[IndexFile], log: CommitLogView, end: int) -> IndexCoverage:
    """The newest gapless range that the index files cover of a log that ends at `end`."""
    floor = log.min_phy_offset
    begin = known_until = floor
    for one in files:
        header = one.reload()
        if one.entries == 0 or header.begin_phy_offset >= end:
            continue
        if first_with_keys(log, known_until, header.begin_phy_offset) is not None:
            begin = header.begin_phy_offset
        last = header.end_phy_offset
        known_until = max(known_until, last + (log.record_size_at(last) or 0)) if last >= floor else floor
    missing = first_with_keys(log, known_until, end)
    if missing is None:
        return IndexCoverage(begin, max(end, begin), begin == floor)
    return IndexCoverage(begin, max(missing, begin), False)


def first_with_keys(log: CommitLogView, start: int, stop: int) -> int | None:
    """Physical offset of the first record of [start, stop) that an index names; `start` is a record boundary.

    Where no record can be read at `start`, that place is the answer: nothing is known of what was there.
    """
    if start >= stop:
        return None
    reached = start
    for file_from_offset, records, reached in log.runs(start, stop, _CHUNK_RECORDS):  # noqa: B007
        rows = np.flatnonzero(_has_keys(records))
        if len(rows):
            return file_from_offset + int(records.positions[rows[0]])
    return None if reached >= stop else reached


def _has_keys(records: RecordColumns) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    segments = records.property_segments()
    named = _filled(segments.column(PROPERTY_UNIQ_KEY)) | _filled(segments.column(PROPERTY_KEYS))
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = named & (
        records.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK
    )
    return found


def _filled(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return np.asarray(column.is_valid()) & (np.diff(offsets) > 0)
