"""One IndexFile: hash slots that head chains of entries, newest first. Bytes: `index_table`; queries: `index_walk`."""

from __future__ import annotations

import struct
from array import array
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.index_layout import ENTRY_SIZE, ENTRY_STRUCT, HEADER_SIZE, SLOT_SIZE, index_file_size
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.java_compat import wrap_int64
from rocketflow_store.records.arrow.unit_types import ENTRY_DTYPE
from rocketflow_store.views.index.index_table import IndexHeader, IndexTable
from rocketflow_store.views.index.index_walk import IndexWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

_GROW_ENTRIES: Final = 1 << 20
BLOCK_ENTRIES: Final = 1 << 18
MAX_TIME_DIFF: Final = 0x7FFFFFFF
_MIN_SORTED_BITS: Final = 32
SLOT_STRUCT: Final = struct.Struct(">i")


class IndexFile:
    """An index file with `hash_slot_num` slots and room for `index_num - 1` entries."""

    def __init__(self, path: Path, hash_slot_num: int, index_num: int, *, write: bool) -> None:
        self.path, self.hash_slot_num, self.index_num = path, hash_slot_num, index_num
        self._write = write
        self._fd = os_files.open_file(path, write=write)
        size = os_files.file_size(self._fd)
        self.well_sized = size == index_file_size(hash_slot_num, index_num)
        try:
            mapped = os_files.map_file(self._fd, path, size, write=write)
        except BaseException:
            self.close()
            raise
        self._table = IndexTable(mapped, hash_slot_num, index_num)
        self._walk = IndexWalk(path, self._table)
        self._allocated = 0
        self._window: Any = None

    @classmethod
    def create(cls, path: Path, hash_slot_num: int, index_num: int, previous: IndexHeader | None) -> IndexFile:
        """Create a file; begin and end of its header carry over from the file before it."""
        os_files.make_directory(path.parent)
        try:
            fd = os_files.open_file(path, write=True, create=True)
            try:
                os_files.make_sparse(fd, path, index_file_size(hash_slot_num, index_num))
                os_files.preallocate(fd, path, HEADER_SIZE)  # it is read through the map: see `_reserve`
            finally:
                os_files.close_file(fd)
            created = cls(path, hash_slot_num, index_num, write=True)
            if previous is not None:
                created._table.header = IndexHeader(
                    previous.end_timestamp,
                    previous.end_timestamp,
                    previous.end_phy_offset,
                    previous.end_phy_offset,
                    0,
                    1,
                )
            created._reserve(0)
            created._table.write_header()
            os_files.sync_directory(path.parent)
            return created
        except BaseException:  # the next attempt takes another name
            os_files.remove_file(path)
            raise

    def is_replaced(self) -> bool:
        """Return True if the name now belongs to another file."""
        status = os_files.status(self._fd)
        try:
            named = self.path.stat()
        except OSError:
            return True
        return (named.st_dev, named.st_ino) != (status.st_dev, status.st_ino)

    def reload(self) -> IndexHeader:
        """Read the header again, since another process may write this file. A writer keeps its own header."""
        if not self._write:
            self._table.read_header()
        return self.header

    @property
    def header(self) -> IndexHeader:
        """The header, as this process last read or wrote it."""
        return self._table.header

    @property
    def room(self) -> int:
        """The number of entries that still fit."""
        free = self.index_num - self.header.index_count
        return free if free > 0 else 0

    @property
    def entries(self) -> int:
        """The number of entries in the file."""
        return self._table.count

    def slots(self) -> npt.NDArray[np.int32]:
        """Return the slot table, a view on the file."""
        return self._table.slots()

    def entry_table(self, count: int | None = None) -> npt.NDArray[np.void]:
        """Return entries 0 (never used) to `count` (by default the last one), a view on the file."""
        return self._table.entries(count)

    def _reserve(self, entries: int) -> None:
        """Allocate blocks for the slots and `entries` entries: a store into a hole on a full disk raises SIGBUS."""
        if entries <= self._allocated and self._allocated:
            return
        wanted = min(entries + _GROW_ENTRIES, self.index_num)
        os_files.preallocate(self._fd, self.path, self._table.entries_at + ENTRY_SIZE * wanted)
        self._allocated = wanted

    def open_window(self) -> tuple[Any, Any, int, int]:
        """Return windows for the kernel on the file and on the numbers of its header, and how many slots and entries.

        Only entries before that number have blocks on the disk.
        """
        assert COMPILED is not None
        if self._window is None:
            self._window = COMPILED.Window(self._table.mapped)
        return self._window, COMPILED.Window(self.header.numbers), self.hash_slot_num, self._allocated

    def put(
        self,
        key_hashes: npt.NDArray[np.int32],
        phy_offsets: npt.NDArray[np.int64],
        store_timestamps: npt.NDArray[np.int64],
    ) -> int:
        """Append entries in order until the file is full; return how many fitted."""
        assert self._write
        count = min(len(key_hashes), self.room)
        if count == 0:
            return 0
        header = self.header
        first = header.index_count
        self._reserve(first + count)
        key_hashes, phy_offsets, store_timestamps = key_hashes[:count], phy_offsets[:count], store_timestamps[:count]
        new_slots = self._link(key_hashes, phy_offsets, store_timestamps, first)
        if first <= 1:
            header.begin_phy_offset = int(phy_offsets[0])
            header.begin_timestamp = int(store_timestamps[0])
        header.hash_slot_count += new_slots
        header.index_count = first + count
        header.end_phy_offset = int(phy_offsets[-1])
        header.end_timestamp = int(store_timestamps[-1])
        self._table.write_header()
        return count

    def _link(
        self,
        key_hashes: npt.NDArray[np.int32],
        phy_offsets: npt.NDArray[np.int64],
        store_timestamps: npt.NDArray[np.int64],
        first: int,
    ) -> int:
        """Write entries from number `first` on, and their slots; return how many slots got their first entry."""
        if COMPILED is not None:
            hashes = np.ascontiguousarray(key_hashes, np.int32)
            columns = (np.ascontiguousarray(one, np.int64) for one in (phy_offsets, store_timestamps))
            begin = self.header.begin_timestamp
            started: int = COMPILED.put_index_entries(
                self._table.mapped, self.hash_slot_num, first, begin, hashes, *columns
            )
            return started
        count = len(key_hashes)
        slot_table, table = self.slots(), self.entry_table(first + count - 1)
        slot_ids = key_hashes % self.hash_slot_num
        order, heads = _chains(slot_ids)
        numbers = np.arange(first, first + count, dtype=np.int64)
        sorted_numbers = numbers[order]
        previous = np.empty(count, np.int64)
        previous[order[1:]] = sorted_numbers[:-1]
        head_rows = order[heads]
        head_slots = slot_ids[head_rows]
        current = slot_table[head_slots].astype(np.int64)
        current[(current < 0) | (current > first)] = 0
        previous[head_rows] = current
        new = table[first : first + count]
        new["key_hash"] = key_hashes
        new["phy_offset"] = phy_offsets
        new["prev_index"] = previous
        new["time_diff"] = self._time_diffs(store_timestamps, first)
        tails = np.append(heads[1:] - 1, count - 1)
        slot_table[head_slots] = sorted_numbers[tails]
        return int(np.count_nonzero(current == 0))

    def put_run(self, key_hashes: Sequence[int], phy_offsets: Sequence[int], store_timestamp: int) -> int:
        """Append a few entries with one store time (ms); return how many fitted."""
        assert self._write
        header = self._table.header
        begin, _, begin_phy_offset, _, slots, first = header.numbers
        count = min(len(key_hashes), max(self.index_num - first, 0))
        self._reserve(first + count)
        if COMPILED is None:
            slots += self._link_run(key_hashes[:count], phy_offsets, store_timestamp, first)
        else:
            slots += COMPILED.put_index_run(
                *(self._table.mapped, self.hash_slot_num, first, begin),
                *(key_hashes, phy_offsets, count, store_timestamp),
            )
        if first <= 1:
            begin, begin_phy_offset = store_timestamp, phy_offsets[0]
        last = phy_offsets[count - 1]
        header.numbers[:] = array("q", (begin, store_timestamp, begin_phy_offset, last, slots, first + count))
        self._table.write_header()
        return count

    def _link_run(
        self, key_hashes: Sequence[int], phy_offsets: Sequence[int], store_timestamp: int, number: int
    ) -> int:
        """Write a few entries from `number` on, as `_link` does."""
        mapped = self._table.mapped
        slots, entry_at, read_slot = (
            self.hash_slot_num,
            self._table.entries_at + ENTRY_SIZE * number,
            SLOT_STRUCT.unpack_from,
        )
        write_slot, write_entry = SLOT_STRUCT.pack_into, ENTRY_STRUCT.pack_into
        begin, new_slots = self.header.begin_timestamp, 0
        passed = wrap_int64(store_timestamp - begin)
        seconds = 0 if begin <= 0 else min(max(int(passed / 1000), 0), MAX_TIME_DIFF)
        for key_hash, phy_offset in zip(key_hashes, phy_offsets):
            slot_at = HEADER_SIZE + SLOT_SIZE * (key_hash % slots)
            (previous,) = read_slot(mapped, slot_at)
            if not 0 < previous <= number:
                previous = 0
                new_slots += 1
            write_entry(mapped, entry_at, key_hash, phy_offset, seconds, previous)
            write_slot(mapped, slot_at, number)
            if number <= 1:
                seconds = 0  # the first entry is measured against the value carried over
            entry_at += ENTRY_SIZE
            number += 1
        return new_slots

    def _time_diffs(self, store_timestamps: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int64]:
        """Return seconds since the file's begin; the first entry is measured against the time carried over."""
        begin = self.header.begin_timestamp
        base = np.full(len(store_timestamps), begin, np.int64)
        if first <= 1:
            base[1:] = store_timestamps[0]
        difference = np.trunc((store_timestamps - base) / 1000).astype(np.int64)
        difference[base <= 0] = 0
        return np.clip(difference, 0, MAX_TIME_DIFF)

    def offsets(self, key_hash: int, begin: int, end: int, max_count: int) -> list[int]:
        """Return the first `max_count` offsets of `walk`."""
        return list(islice(self.walk(key_hash, begin, end), max_count))

    def walk(
        self, key_hash: int, begin: int, end: int, on_damage: Callable[[Path, int, str], None] | None = None
    ) -> Iterator[int]:
        """Yield as `IndexWalk.walk` does, with the newest header."""
        self.reload()
        return self._walk.walk(key_hash, begin, end, on_damage)

    def overlaps(self, begin: int, end: int) -> bool:
        """Return True if the file may have entries between two store times (ms)."""
        return self._walk.overlaps(begin, end)

    def ends_before(self, begin: int) -> bool:
        """Return True if no older file has an entry from store time `begin` (ms) on."""
        return self._walk.ends_before(begin)

    def written_below(self, phy_offset: int) -> int:
        """Return how many of the first entries are complete and belong to records before `phy_offset`.

        After a power loss the header may count entries that did not reach the disk: zeros, or an offset that falls.
        """
        before = -1
        for first, entries in self._blocks(self.entries):
            offsets = np.empty(len(entries) + 1, np.int64)
            offsets[0], offsets[1:] = before, entries["phy_offset"]
            bad = (offsets[1:] >= phy_offset) | (offsets[1:] < offsets[:-1]) | (entries == np.zeros((), ENTRY_DTYPE))
            rows = np.flatnonzero(bad)
            if len(rows):
                return first - 1 + int(rows[0])
            before = int(offsets[-1])
        return self.entries

    def keep_first(self, keep: int, store_timestamp_at: Callable[[int], int | None]) -> None:
        """Drop all but the first `keep` (at least one) entries and rebuild the slots from the rest.

        `store_timestamp_at` returns the store time (ms) of the record at a physical offset, None if there is no record;
        the end time is then that of the entry, which is exact to the second.
        """
        assert self._write
        assert keep > 0
        slots = self.slots()
        self._reserve(keep + 1)
        slots[:] = 0
        for first, entries in self._blocks(keep):
            slots[entries["key_hash"].astype(np.int64) % self.hash_slot_num] = np.arange(first, first + len(entries))
        table = self.entry_table()
        table[keep + 1 :] = np.zeros((), ENTRY_DTYPE)
        header, last = self.header, int(table["phy_offset"][keep])
        store_timestamp = store_timestamp_at(last)
        if store_timestamp is not None:
            header.end_timestamp = store_timestamp
        elif last != header.end_phy_offset:
            header.end_timestamp = header.begin_timestamp + 1000 * int(table["time_diff"][keep])
        header.end_phy_offset = last
        header.hash_slot_count = int(np.count_nonzero(slots))
        header.index_count = keep + 1
        self._table.write_header()

    def _blocks(self, count: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        """Yield entries 1 to `count` as views of a bounded size, each with the number of its first entry."""
        table = self.entry_table(count)
        for first in range(1, count + 1, BLOCK_ENTRIES):
            yield first, table[first : first + BLOCK_ENTRIES]

    def sync(self) -> None:
        """Make all entries durable."""
        os_files.sync_file(self._fd, self.path)

    def close(self) -> None:
        if self._window is not None:
            self._window.close()
        if self._fd >= 0:
            os_files.close_file(self._fd)
            self._fd = -1


def _chains(slot_ids: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (rows sorted by slot then position, positions in that order at which a slot's rows begin)."""
    tagged = (slot_ids.astype(np.int64) << _MIN_SORTED_BITS) | np.arange(len(slot_ids))
    tagged.sort()
    order = tagged & ((1 << _MIN_SORTED_BITS) - 1)
    slots = tagged >> _MIN_SORTED_BITS
    return order, np.append(0, np.flatnonzero(slots[1:] != slots[:-1]) + 1)
