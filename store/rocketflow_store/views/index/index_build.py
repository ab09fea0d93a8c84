"""Build a complete index file at once, byte for byte as `IndexFile.put` leaves it for the same entries in order.

During the build only the number of each slot's newest entry is needed. These numbers are in a table in memory, in
native byte order; a block of entries reads its predecessors from it and stores its own numbers, without sorting. Only
entries of a slot that has several in one block are sorted first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, HEADER_STRUCT, SLOT_SIZE, index_file_size
from rocketflow_store.kernel import COMPILED
from rocketflow_store.records.arrow.unit_types import ENTRY_DTYPE, INDEX_ROW_DTYPE
from rocketflow_store.views.index.index_file import MAX_TIME_DIFF
from rocketflow_store.views.index.index_table import IndexHeader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int32]

_BLOCK: Final = 1 << 15
_SLOTS_AT_ONCE: Final = 1 << 19
_SHARED: Final = -1


def build_index_file(
    path: Path,
    hash_slot_num: int,
    index_num: int,
    previous: IndexHeader | None,
    runs: Iterable[npt.NDArray[np.void]],
    written: Callable[[int], None] = lambda entries: None,
) -> IndexHeader:
    """Build the file and return its header; `runs` are rows of INDEX_ROW_DTYPE.

    `previous` is the header of the file before it, None for the first one. The caller syncs the file; writeback has
    begun. `written` is called with the number of entries in the file so far.
    """
    fd = os_files.open_file(path, write=True, create=True)
    try:
        os_files.make_sparse(fd, path, index_file_size(hash_slot_num, index_num))
        build = _Build(fd, path, hash_slot_num, previous)
        for run in runs:
            for start in range(0, len(run), _BLOCK):
                build.put(run[start : start + _BLOCK])
                written(build.header.index_count - 1)
        build.finish()
    finally:
        os_files.close_file(fd)
    return build.header


class SlotTable:
    """The number of the newest entry of every slot, 0 for none."""

    def __init__(self, slots: int) -> None:
        self.newest = np.zeros(slots, np.int32)

    def follow(self, key_hashes: Numbers, first: int) -> Numbers:
        """Add entries from number `first` on; return each one's predecessor in its slot, 0 for none."""
        newest = self.newest
        slots = (key_hashes % len(newest)).astype(np.intp)
        numbers = np.arange(first, first + len(slots), dtype=np.int32)
        before = newest[slots]
        newest[slots] = numbers
        again = np.flatnonzero(newest[slots] != numbers)
        if len(again):
            newest[slots[again]] = _SHARED
            rows = np.flatnonzero(newest[slots] == _SHARED)
            rows = rows[np.argsort(slots[rows], kind="stable")]
            shared = slots[rows]
            follows = np.flatnonzero(shared[1:] == shared[:-1])
            before[rows[follows + 1]] = numbers[rows[follows]]
            last = np.append(np.flatnonzero(shared[1:] != shared[:-1]), len(rows) - 1)
            newest[shared[last]] = numbers[rows[last]]
        return before


class _Build:
    def __init__(self, fd: int, path: Path, hash_slot_num: int, previous: IndexHeader | None) -> None:
        self._fd, self._path = fd, path
        self._slots = SlotTable(hash_slot_num)
        self._entries_at = HEADER_SIZE + SLOT_SIZE * hash_slot_num
        self.header = IndexHeader()
        if previous is not None:
            time, offset = previous.end_timestamp, previous.end_phy_offset
            self.header = IndexHeader(time, time, offset, offset)

    def put(self, some: npt.NDArray[np.void]) -> None:
        """Write the next entries."""
        header, count = self.header, len(some)
        if count == 0:
            return
        first = header.index_count
        entries, started = self._entries(some, first)
        if first == 1:
            header.begin_timestamp, header.begin_phy_offset = (
                int(some["store_timestamp"][0]),
                int(some["phy_offset"][0]),
            )
        self._write(self._entries_at + ENTRY_SIZE * first, memoryview(entries.view(np.uint8).data))
        header.hash_slot_count += started
        header.index_count = first + count
        header.end_timestamp, header.end_phy_offset = int(some["store_timestamp"][-1]), int(some["phy_offset"][-1])

    def _entries(self, some: npt.NDArray[np.void], first: int) -> tuple[npt.NDArray[np.void], int]:
        """Return the entries from number `first` on, and how many of them are the first ones of their slots."""
        begin, entries = self.header.begin_timestamp, np.empty(len(some), ENTRY_DTYPE)
        if COMPILED is not None and some.dtype == INDEX_ROW_DTYPE:
            newest = self._slots.newest
            octets = np.ascontiguousarray(some).view(np.uint8), entries.view(np.uint8)
            return entries, COMPILED.follow_index_rows(octets[0], newest, first, begin, octets[1])
        times = some["store_timestamp"]
        entries["key_hash"] = some["key_hash"]
        entries["phy_offset"] = some["phy_offset"]
        entries["prev_index"] = before = self._slots.follow(some["key_hash"], first)
        entries["time_diff"] = self._seconds(times, begin)
        if first == 1:  # only the first entry is measured against the time that was carried over
            entries["time_diff"][1:] = self._seconds(times[1:], int(times[0]))
        return entries, len(some) - int(np.count_nonzero(before))

    def finish(self) -> None:
        """Write slots and header."""
        at = HEADER_SIZE
        newest = self._slots.newest
        for start in range(0, len(newest), _SLOTS_AT_ONCE):
            some = newest[start : start + _SLOTS_AT_ONCE].astype(">i4")
            self._write(at, memoryview(some.view(np.uint8).data))
            at += some.nbytes
        header = self.header
        fields = (header.begin_timestamp, header.end_timestamp, header.begin_phy_offset, header.end_phy_offset)
        self._write(0, memoryview(HEADER_STRUCT.pack(*fields, header.hash_slot_count, header.index_count)))

    def _write(self, position: int, data: memoryview) -> None:
        os_files.write_at(self._fd, self._path, position, data)
        os_files.begin_writeback(self._fd, position, data.nbytes)

    @staticmethod
    def _seconds(times: npt.NDArray[np.int64], begin: int) -> npt.NDArray[np.int64]:
        if begin <= 0:
            return np.zeros(len(times), np.int64)
        return np.clip((times - begin) // 1000, 0, MAX_TIME_DIFF)
