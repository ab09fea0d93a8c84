"""The index files against the log, a bounded part of both at a time.

First every file for itself (`structure`): header, chains, slots, and the least and greatest physical offset of every
block of entries. Then, as the log is read, each stretch of it against the blocks that name it (`compare`): an entry
must name a key, or the TAGS, of the record it points at, and every key must have an entry. TAGS must where RocketFlow
wrote them (`layout.tag_entries`): brokers before 5.4.0 leave them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import FindingList
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.views.index.index_file import IndexFile

    Ints = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 16
_MAX_BAD: Final = 10_000
_MAX_SECONDS: Final = 0x7FFFFFFF
_HEADER_FIELDS: Final = {"begin_timestamp": 0, "end_timestamp": 8, "begin_phy_offset": 16, "end_phy_offset": 24}


@dataclass(slots=True)
class Compared:
    """What one stretch of the log said: wrong entries (file number, entry number, phy offset), keys without entry."""

    wrong: list[tuple[int, int, int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    keys: int = 0
    more: int = 0


@dataclass(frozen=True, slots=True)
class ExpectedEntries:
    """Entries that records of a stretch of the log may have: `pairs` are (phy_offset - start) << 32 | key hash.

    Those that are marked in `must` have to exist; `store_timestamps` are the records' (ms).
    """

    pairs: Ints
    store_timestamps: Ints
    must: npt.NDArray[np.bool_]

    def different(self) -> ExpectedEntries:
        """Return each pair once, sorted; it must exist if one of its kind must."""
        order = np.lexsort((~self.must, self.pairs))
        pairs = self.pairs[order]
        first = order[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else order
        return ExpectedEntries(self.pairs[first], self.store_timestamps[first], self.must[first])


@dataclass(slots=True)
class _Known:
    file: IndexFile
    entries: int
    lows: Ints
    highs: Ints


class IndexCheck:
    """The index of one store, of a log that begins at `floor` and ends at `end`."""

    def __init__(self, files: Sequence[IndexFile], floor: int, end: int, *, settled: bool) -> None:
        self._files, self._floor, self._end, self._settled = files, floor, end, settled
        self._known: dict[int, _Known] = {}

    def structure(self, found: FindingList, log: CommitLogView) -> None:
        """Check every file for itself."""
        for number, file in enumerate(self._files):
            header = file.reload()
            if not 1 <= header.index_count <= file.index_num:
                found.add("index-header", file.path, 36, 4, f"index count is {header.index_count}")
                continue
            known = self._known[number] = self._chains(file, found)
            if known.entries and self._settled:
                self._header(file, found, log)

    def _chains(self, file: IndexFile, found: FindingList) -> _Known:
        """Follow the entries in order as they were put, and compare what they and the slots link."""
        count = file.entries
        blocks = range(1, count + 1, _BLOCK)
        known = _Known(file, count, np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64))
        heads = np.zeros(file.hash_slot_num, np.int32)
        table = file.entry_table(count)
        for at, first in enumerate(blocks):
            entries = table[first : min(first + _BLOCK, count + 1)]
            phy_offsets = entries["phy_offset"].astype(np.int64)
            known.lows[at], known.highs[at] = phy_offsets.min(), phy_offsets.max()
            slots = entries["key_hash"].astype(np.int64) % file.hash_slot_num
            numbers = np.arange(first, first + len(entries), dtype=np.int32)
            order = np.argsort(slots, kind="stable")
            previous = heads[slots]
            same = slots[order][1:] == slots[order][:-1]
            previous[order[1:][same]] = numbers[order[:-1][same]]
            heads[slots[order]] = numbers[order]
            self._entries(file, numbers[entries["prev_index"] != previous], found, "index-chain", "another predecessor")
            away = (phy_offsets < 0) | (phy_offsets >= self._end) if self._settled else phy_offsets < 0
            self._entries(file, numbers[away], found, "index-entry", "outside of the log")
        if self._settled:
            self._slots(file, heads, found)
        return known

    def _slots(self, file: IndexFile, heads: npt.NDArray[np.int32], found: FindingList) -> None:
        slots = file.slots()
        used = 0
        for start in range(0, len(heads), _BLOCK):
            part = heads[start : start + _BLOCK]
            used += int(np.count_nonzero(part))
            for at in np.flatnonzero(slots[start : start + _BLOCK] != part).tolist():
                where = HEADER_SIZE + SLOT_SIZE * (start + at)
                found.add("index-chain", file.path, where, SLOT_SIZE, f"slot {start + at} does not head its chain")
        told = file.header.hash_slot_count
        if told != used:
            found.add("index-header", file.path, 32, 4, f"hash slot count is {told}, {used} slots are used")

    def _header(self, file: IndexFile, found: FindingList, log: CommitLogView) -> None:
        header, table = file.header, file.entry_table()
        first, last = int(table["phy_offset"][1]), int(table["phy_offset"][-1])
        wanted = {"begin_phy_offset": first, "end_phy_offset": last}
        for name, phy_offset in (("begin_timestamp", first), ("end_timestamp", last)):
            try:
                wanted[name] = log.message_at(phy_offset).store_timestamp
            except StoreError:
                continue  # removed, or damaged: nothing to compare with
        for name, value in wanted.items():
            told = getattr(header, name)
            if told != value:
                found.add("index-header", file.path, _HEADER_FIELDS[name], 8, f"{name} is {told}, not {value}")

    def compare(self, start: int, stop: int, expected: ExpectedEntries, out: Compared) -> None:
        """Compare the index with the entries that records in [start, stop) have to have, or may have."""
        expected = expected.different()
        pairs, times, must = expected.pairs, expected.store_timestamps, expected.must
        out.keys += int(np.count_nonzero(must))
        seen = np.zeros(len(pairs), bool)
        for number, known in self._known.items():
            for block in np.flatnonzero((known.highs >= start) & (known.lows < stop)).tolist():
                first = 1 + block * _BLOCK
                entries = known.file.entry_table(known.entries)[first : min(first + _BLOCK, known.entries + 1)]
                self._block(number, known.file, first, entries, (start, stop), (pairs, times, seen), out)
        if self._known:
            missing = (pairs[must & ~seen] >> 32) + start
            missing = np.unique(missing[missing >= self._floor])
            room = max(_MAX_BAD - len(out.missing), 0)
            out.missing += missing[:room].tolist()
            out.more += max(len(missing) - room, 0)

    def _block(
        self,
        number: int,
        file: IndexFile,
        first: int,
        entries: npt.NDArray[np.void],
        bounds: tuple[int, int],
        expected: tuple[Ints, Ints, npt.NDArray[np.bool_]],
        out: Compared,
    ) -> None:
        (start, stop), (pairs, times, seen) = bounds, expected
        phy_offsets = entries["phy_offset"].astype(np.int64)
        mine = np.flatnonzero((phy_offsets >= start) & (phy_offsets < stop))
        if len(mine) == 0:
            return
        wanted = ((phy_offsets[mine] - start) << 32) | (entries["key_hash"][mine].astype(np.int64) & 0xFFFFFFFF)
        good = np.zeros(len(mine), bool)
        if len(pairs):
            at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
            good = pairs[at] == wanted
            seen[at[good]] = True
            begin = file.header.begin_timestamp
            if begin > 0:
                seconds = np.clip(np.trunc((times[at] - begin) / 1000), 0, _MAX_SECONDS).astype(np.int64)
                # a file's first entry counts from the file before
                good &= (entries["time_diff"][mine] == seconds) | (first + mine == 1)
        wrong = mine[~good]
        room = max(_MAX_BAD - len(out.wrong), 0)
        out.wrong += [(number, first + row, int(phy_offsets[row])) for row in wrong[:room].tolist()]
        out.more += max(len(wrong) - room, 0)

    def path_of(self, number: int) -> str:
        """Which file a number of `Compared.wrong` means."""
        return str(self._files[number].path)

    def entry_position(self, number: int, entry: int) -> int:
        """Where an entry is in its file."""
        return HEADER_SIZE + SLOT_SIZE * self._files[number].hash_slot_num + ENTRY_SIZE * entry

    def _entries(
        self, file: IndexFile, numbers: npt.NDArray[np.int32], found: FindingList, kind: str, detail: str
    ) -> None:
        start = HEADER_SIZE + SLOT_SIZE * file.hash_slot_num
        for number in numbers.tolist():
            found.add(kind, file.path, start + ENTRY_SIZE * number, ENTRY_SIZE, f"entry {number}: {detail}")
