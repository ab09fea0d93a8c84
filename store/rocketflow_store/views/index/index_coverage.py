"""Determine the part of the log that the index covers: a key without an entry does not occur there.

Index entries follow the log, so the index covers a range if no record with keys lies between the last entry of one file
and the first of the next, before the first file, or after the last one. Gaps and damage inside a file are not detected
here; `verify` does that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.property_names import PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.system_flags import TRANSACTION_MASK, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.views.index.index_file import IndexFile


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """Physical offsets `[begin, end)` in which the index names every key; `complete` if that is the whole log."""

    begin_phy_offset: int
    end_phy_offset: int
    complete: bool


def index_coverage(files: Sequence[IndexFile], log: CommitLogView, end: int, *, tags: bool = False) -> IndexCoverage:
    """Return the newest gapless range that the index files cover of a log that ends at `end`.

    With `tags` the TAGS of records count too, as if every writer had indexed them: `TagEntries` knows which parts were.
    """
    has_keys = _has_keys_or_tags if tags else _has_keys
    floor = log.min_phy_offset
    begin = known_until = floor
    for one in files:
        header = one.reload()
        if one.entries == 0 or header.begin_phy_offset >= end:
            continue
        if log.first_where(known_until, header.begin_phy_offset, has_keys) is not None:
            # a file's first record may have keys in the file before, which is missing
            begin = header.begin_phy_offset + (log.record_size_at(header.begin_phy_offset) or 0)
        last = header.end_phy_offset
        if last < floor:
            known_until = floor
        else:
            known_until = max(
                known_until, last + (log.record_size_at(last) or 0) if _has_all_of_last(one, log, tags=tags) else last
            )
    missing = log.first_where(known_until, end, has_keys)
    if missing is None:
        return IndexCoverage(begin, max(end, begin), begin == floor)
    return IndexCoverage(begin, max(missing, begin), False)


def _has_all_of_last(file: IndexFile, log: CommitLogView, *, tags: bool) -> bool:
    """Return True if a file holds every key (and the TAGS) of its last record; the rest may be in a next file."""
    if file.room:
        return True
    last = file.header.end_phy_offset
    try:
        message = log.message_at(last, check_crc=False)
    except StoreError:
        return False
    wanted = len(message.keys) + bool(message.uniq_key) + (tags and bool(message.tags))
    tail = file.entry_table()["phy_offset"][1:][-wanted - 1 :]  # that of TAGS is the last one of a record
    return int(np.count_nonzero(tail == last)) >= wanted


def _has_keys(records: RecordColumns) -> npt.NDArray[np.bool_]:
    return _names(records, PROPERTY_UNIQ_KEY, PROPERTY_KEYS)


def _has_keys_or_tags(records: RecordColumns) -> npt.NDArray[np.bool_]:
    return _names(records, PROPERTY_UNIQ_KEY, PROPERTY_KEYS, PROPERTY_TAGS)


def _names(records: RecordColumns, *properties: str) -> npt.NDArray[np.bool_]:
    """Return a mask of the records that have one of `properties`, and are indexed."""
    segments = records.property_segments()
    named = np.zeros(records.count, bool)
    for one in properties:
        named |= _filled(segments.column(one))
    rolled_back: npt.NDArray[np.bool_] = records.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK
    return named & ~rolled_back


def _filled(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a mask of the strings of a column that are neither null nor empty."""
    offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
    return np.diff(offsets) > 0
