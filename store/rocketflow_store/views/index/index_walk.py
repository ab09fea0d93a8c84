"""The query of one IndexFile: along the chain of a key's slot, newest first, and around damage to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from rocketflow_store.views.index.index_table import IndexTable

_FOREVER_MS: Final = (1 << 63) - 1
_ROUNDED_MS: Final = 999
"""An entry's time may be this much earlier than its record's."""


class IndexWalk:
    """Queries of the file at `path`; the caller reads its header before each query."""

    def __init__(self, path: Path, table: IndexTable) -> None:
        self._path, self._table = path, table
        self._slots_agree_at = -1
        """The number of entries at which the slots were found to match the header."""

    def walk(
        self, key_hash: int, begin: int, end: int, on_damage: Callable[[Path, int, str], None] | None = None
    ) -> Iterator[int]:
        """Yield physical offsets of entries with this hash whose records may be of [begin, end] ms, newest first.

        An entry's time is its record's, rounded down to whole seconds since the file's first: records stored up to 999
        ms outside the range are yielded too, and the caller checks their times. If the chain leaves the
        file, reaches an entry of another slot, or does not lead to older entries, the remaining entries are found by a
        scan of all entries: damage to slots and links hides no key. `on_damage` is called with this file, the number of
        an entry and a description of the damage if an entry of the key may have been changed.

        A time that is outside those of its neighbours is not reliable: the entry is yielded, and the caller checks the
        time of its record.
        """
        header, slots = self._table.header, self._table.hash_slot_num
        begin = max(begin - _ROUNDED_MS, -_FOREVER_MS)
        if not self._times_agree():
            begin, end = -_FOREVER_MS, _FOREVER_MS
        slot = key_hash % slots
        at, newer = self._table.slot(slot), self._table.index_num
        if at == 0 and not self._slots_agree():
            yield from self._among_all(key_hash, begin, end, newer)
            return
        while at != 0:
            if not 0 < at < newer:
                if on_damage is not None:
                    on_damage(self._path, newer, f"the chain of its slot goes on at entry {at}, which is not older")
                yield from self._among_all(key_hash, begin, end, newer)
                return
            entry_hash, phy_offset, _, previous = self._table.entry(at)
            if entry_hash % slots != slot:
                if on_damage is not None:
                    on_damage(self._path, at, "it is in the chain of another slot")
                yield from self._among_all(key_hash, begin, end, newer)
                return
            time = header.begin_timestamp + 1000 * self._seconds(at)
            near = begin <= time <= end or self._is_near(at)
            if entry_hash == key_hash and (not near or begin <= time <= end):
                if on_damage is not None and not self._rises(at):
                    on_damage(self._path, at, "its physical offset is not between those of its neighbours")
                yield phy_offset
            if near and time < begin:
                return
            at, newer = previous, at

    def _rises(self, number: int) -> bool:
        """Return True if an entry's physical offset lies between those of the previous and the next entry."""
        before = self._table.entry(number - 1)[1] if number > 1 else 0
        places = [before, self._table.entry(number)[1]]
        if number < self._table.count:
            places.append(self._table.entry(number + 1)[1])
        return places == sorted(places)

    def _seconds(self, number: int) -> int:
        """Return the seconds from the file's first record to that of an entry.

        The field of entry 1 is measured from the newest record of the file before: the pause between the two files.
        """
        return self._table.entry(number)[2] if number > 1 else 0

    def _is_near(self, number: int) -> bool:
        """Return True if an entry's time lies between those of its neighbours: a clock may have been set back."""
        time = self._seconds(number)
        if not 1 < number < self._table.count:
            return time >= 0
        sides = self._seconds(number - 1), self._seconds(number + 1)
        return min(sides) <= time <= max(sides)

    def _times_agree(self) -> bool:
        """Return True if the header's times are those of a file whose newest entry is its last."""
        header, count = self._table.header, self._table.count
        if count < 2:
            return False
        last = header.begin_timestamp + 1000 * self._table.entry(count)[2]
        return 0 <= header.end_timestamp - last < 1000

    def _slots_agree(self) -> bool:
        """Return True if the used slots match the header's count and one names the newest entry: none was zeroed."""
        header = self._table.header
        if self._slots_agree_at != header.index_count:
            slots = self._table.slots()
            newest = min(header.index_count, self._table.index_num) - 1
            if np.count_nonzero(slots) != header.hash_slot_count or int(slots.max(initial=0)) != newest:
                return False
            self._slots_agree_at = header.index_count
        return True

    def _among_all(self, key_hash: int, begin: int, end: int, newer: int) -> Iterator[int]:
        """Yield the results of `walk` among the entries below number `newer`, without slots and links."""
        last = max(self._table.count, int(self._table.slots().max(initial=0)))  # a damaged header may count too few
        table, header = self._table.entries(min(last, newer - 1, self._table.index_num - 1)), self._table.header
        rows = np.flatnonzero(table["key_hash"][1:] == key_hash)[::-1] + 1
        seconds = np.where(rows > 1, table["time_diff"][rows], 0).astype(np.int64)  # see `_seconds`
        times = header.begin_timestamp + 1000 * seconds
        yield from table["phy_offset"][rows[(times >= begin) & (times <= end)]].tolist()

    def overlaps(self, begin: int, end: int) -> bool:
        """Return True if the file may have entries between two store times (ms)."""
        header = self._table.header
        return (begin <= header.end_timestamp and end >= header.begin_timestamp) or not self._times_agree()

    def ends_before(self, begin: int) -> bool:
        """Return True if no older file has an entry from store time `begin` (ms) on."""
        return self._table.header.begin_timestamp < begin and self._times_agree()
