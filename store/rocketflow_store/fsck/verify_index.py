"""Verification of the index files against the log, a bounded part of both at a time.

First every file is checked by itself (`structure`): header, chains, slots, and the least and greatest physical offset
of every block of entries. Then, as the log is read, each stretch of it is compared with the blocks that point into it
(`compare`): an entry must have a key, or the TAGS, of the record it points at, and every key must have an entry. TAGS
must have one where RocketFlow wrote them (`layout.tag_entries`): brokers before 5.4.0 omit them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.index_layout import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.errors import StoreError
from rocketflow_store.records.arrow.gather import in_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.log_damage import LogDamage
    from rocketflow_store.fsck.log_report import Compared, LogFileReport
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.records.decoding.index_entries import IndexEntries
    from rocketflow_store.views.index.index_file import IndexFile

    Ints = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 16
_MAX_BAD: Final = 10_000
_MAX_SECONDS: Final = 0x7FFFFFFF
_HEADER_FIELDS: Final = {"begin_timestamp": 0, "end_timestamp": 8, "begin_phy_offset": 16, "end_phy_offset": 24}


@dataclass(frozen=True, slots=True)
class ExpectedEntries:
    """Entries that records of a stretch of the log may have: `pairs` are (phy_offset - start) << 32 | key hash.

    Those that are marked in `must` have to exist; `store_timestamps` are the records' (ms).
    """

    pairs: Ints
    store_timestamps: Ints
    must: npt.NDArray[np.bool_]

    def different(self) -> ExpectedEntries:
        """Return each pair once, sorted; a pair must exist if one of its duplicates must."""
        order = np.lexsort((~self.must, self.pairs))
        pairs = self.pairs[order]
        first = order[np.append(True, pairs[1:] != pairs[:-1])] if len(pairs) else order
        return ExpectedEntries(self.pairs[first], self.store_timestamps[first], self.must[first])


class GatheredEntries:
    """The expected entries of a stretch of the log, in the order of its records: as dispatch writes them."""

    def __init__(self) -> None:
        self._count = 0
        self._pairs, self._times, self._must = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, bool)

    def add(self, entries: IndexEntries, positions: Ints, times: Ints, with_tags: npt.NDArray[np.bool_]) -> bool:
        """Add the entries of records at `positions` from the stretch's begin on; return True if one has to exist.

        Entries of TAGS have to exist for records `with_tags`.
        """
        end = self._count + len(entries.hashes)
        if end > len(self._pairs):
            room = max(end, 2 * len(self._pairs))
            for name in ("_pairs", "_times", "_must"):
                old = getattr(self, name)
                setattr(self, name, np.empty(room, old.dtype))
                getattr(self, name)[: self._count] = old[: self._count]
        pairs, pair_times, must = (one[self._count : end] for one in (self._pairs, self._times, self._must))
        if COMPILED is not None:
            columns = np.ascontiguousarray(entries.hashes, np.int32), in_row(entries.of_row)
            of_tag = np.ascontiguousarray(entries.of_tag)
            COMPILED.index_pairs(
                (*columns, of_tag.view(np.uint8)),
                in_row(positions),
                in_row(times),
                with_tags.view(np.uint8),
                pairs,
                pair_times,
                must.view(np.uint8),
            )
        else:
            pairs[:] = (positions[entries.of_row] << 32) | entries.hashes
            pair_times[:] = times[entries.of_row]
            must[:] = ~entries.of_tag | with_tags[entries.of_row]
        self._count = end
        return bool(must.any())

    def take(self, length: int) -> ExpectedEntries:
        """Return the entries of the first `length` bytes, valid until the next call of `add`; begin a new stretch."""
        count, self._count = int(np.searchsorted(self._pairs[: self._count], length << 32)), 0
        return ExpectedEntries(self._pairs[:count], self._times[:count], self._must[:count])


@dataclass(slots=True)
class CheckedFile:
    """A file whose chains were checked: its entries, and the lowest and highest offset of each block of them."""

    file: IndexFile
    entries: int
    lows: Ints
    highs: Ints

    def blocks_in(self, start: int, stop: int) -> list[int]:
        """Return the blocks with an entry that may point into [start, stop)."""
        found: list[int] = np.flatnonzero((self.highs >= start) & (self.lows < stop)).tolist()
        return found

    def block(self, number: int) -> tuple[int, npt.NDArray[np.void]]:
        """Return the number of a block's first entry, and its entries."""
        first = 1 + number * _BLOCK
        return first, self.file.entry_table(self.entries)[first : min(first + _BLOCK, self.entries + 1)]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of the log in [start, stop): the pairs that they may have, the pairs that were seen, the findings."""

    start: int
    stop: int
    expected: ExpectedEntries
    seen: npt.NDArray[np.bool_]
    out: Compared


class IndexCheck:
    """The check of a store's index."""

    def __init__(self, seen: Observation) -> None:
        self._seen, self._files = seen, seen.reader.index.files
        self.floor, self._end, self._settled = seen.reader.min_phy_offset, seen.end, seen.is_clean
        self.known: dict[int, CheckedFile] = {}
        """The files that entries can be compared with, by number."""

    def structure(self, found: Findings) -> None:
        """Check every file by itself."""
        for number, file in enumerate(self._files):
            header = file.reload()
            if not 1 <= header.index_count <= file.index_num:
                found.add("index-header", file.path, 36, 4, f"index count is {header.index_count}")
                continue
            known = self.known[number] = self._chains(file, found)
            if known.entries and self._settled:
                self._header(file, found)

    def _chains(self, file: IndexFile, found: Findings) -> CheckedFile:
        """Follow the entries in the order of their numbers, and check their links and those of the slots."""
        count = file.entries
        blocks = range(1, count + 1, _BLOCK)
        known = CheckedFile(file, count, np.zeros(len(blocks), np.int64), np.zeros(len(blocks), np.int64))
        heads = np.zeros(file.hash_slot_num, np.int32)
        table = file.entry_table(count)
        for at, first in enumerate(blocks):
            entries = table[first : min(first + _BLOCK, count + 1)]
            wrong, known.lows[at], known.highs[at] = follow_chains(entries, first, heads)
            numbers = np.arange(first, first + len(entries), dtype=np.int32)
            self._entries(file, numbers[wrong], found, "index-chain", "another predecessor")
            if known.lows[at] < 0 or (self._settled and known.highs[at] >= self._end):
                phy_offsets = entries["phy_offset"].astype(np.int64)
                away = (phy_offsets < 0) | (phy_offsets >= self._end) if self._settled else phy_offsets < 0
                self._entries(file, numbers[away], found, "index-entry", "outside of the log")
        if self._settled:
            self._slots(file, heads, found)
        return known

    def _slots(self, file: IndexFile, heads: npt.NDArray[np.int32], found: Findings) -> None:
        slots = file.slots()
        used = 0
        for start in range(0, len(heads), _BLOCK):
            part = heads[start : start + _BLOCK]
            used += int(np.count_nonzero(part))
            for at in np.flatnonzero(slots[start : start + _BLOCK] != part).tolist():
                where = HEADER_SIZE + SLOT_SIZE * (start + at)
                found.add("index-chain", file.path, where, SLOT_SIZE, f"slot {start + at} does not head its chain")
        stored = file.header.hash_slot_count
        if stored != used:
            found.add("index-header", file.path, 32, 4, f"hash slot count is {stored}, {used} slots are used")

    def _header(self, file: IndexFile, found: Findings) -> None:
        header, table, log = file.header, file.entry_table(), self._seen.reader.log
        first, last = int(table["phy_offset"][1]), int(table["phy_offset"][-1])
        wanted = {"begin_phy_offset": first, "end_phy_offset": last}
        for name, phy_offset in (("begin_timestamp", first), ("end_timestamp", last)):
            try:
                wanted[name] = log.message_at(phy_offset).store_timestamp
            except StoreError:
                continue  # removed, or damaged: it cannot be compared
        for name, value in wanted.items():
            stored = getattr(header, name)
            if stored != value:
                found.add("index-header", file.path, _HEADER_FIELDS[name], 8, f"{name} is {stored}, not {value}")

    def compare(self, start: int, stop: int, expected: ExpectedEntries, out: Compared) -> None:
        """Compare the index with the entries that records in [start, stop) must have, or may have."""
        out.keys += int(np.count_nonzero(expected.must))
        if self._are_in_order(start, stop, expected):
            return
        expected = expected.different()
        stretch = Stretch(start, stop, expected, np.zeros(len(expected.pairs), bool), out)
        for number, known in self.known.items():
            for block in known.blocks_in(start, stop):
                _compare_block(number, known, block, stretch)
        if self.known:
            missing = (expected.pairs[expected.must & ~stretch.seen] >> 32) + start
            missing = np.unique(missing[missing >= self.floor])
            room = max(_MAX_BAD - len(out.missing), 0)
            out.missing += missing[:room].tolist()
            out.more += max(len(missing) - room, 0)

    def _are_in_order(self, start: int, stop: int, expected: ExpectedEntries) -> bool:
        """Return True if the index has exactly the expected entries of records in [start, stop), in their order."""
        if COMPILED is None:
            return False
        columns, at = (expected.pairs, expected.store_timestamps, expected.must.view(np.uint8)), 0
        for known in self.known.values():
            begin = known.file.header.begin_timestamp
            for block in known.blocks_in(start, stop):
                first, entries = known.block(block)
                at = COMPILED.match_in_order(entries.view(np.uint8), first == 1, (start, stop), columns, begin, at)
                if at < 0:
                    return False
        return not self.known or not expected.must[at:].any()

    def report(self, reports: Sequence[LogFileReport], damage: LogDamage, found: Findings) -> None:
        """Add the findings of all stretches: entries without their record, and records without their entry."""
        reader = self._seen.reader
        for report in reports:
            damaged = damage.contains(np.array([one[2] for one in report.index.wrong], np.int64))
            for (number, entry, phy_offset), lost in zip(report.index.wrong, damaged.tolist(), strict=True):
                if not lost:
                    file = self._files[number]
                    position = HEADER_SIZE + SLOT_SIZE * file.hash_slot_num + ENTRY_SIZE * entry
                    what = f"entry {entry} names {phy_offset}: no record with this key and time there"
                    found.add("index-entry", file.path, position, 20, what)
            damaged = damage.contains(np.array(report.index.missing, np.int64))
            for phy_offset, lost in zip(report.index.missing, damaged.tolist(), strict=True):
                if not lost:
                    mapped = self._seen.log_file(phy_offset)
                    position, size = phy_offset - mapped.file_from_offset, reader.record_size_at(phy_offset) or 0
                    found.add("missing-entry", mapped.path, position, size, "the index lacks a key of this record")
        if not self._files and self._seen.is_clean and any(one.index.keys for one in reports) and self._had_index():
            why = "no index file is there, messages have keys (a store without: --config, messageIndexEnable=false)"
            found.add("missing-entry", reader.paths.index, 0, 0, why)

    def report_absent(self, reports: Sequence[LogFileReport], found: Findings) -> None:
        """Report a completely missing index of a store that was not stopped in order."""
        keyed = any(report.keyed for report in reports)
        if not self._files and keyed and self._seen.reader.config.message_index_enable:
            why = "no index file is there, and messages have keys; the next open makes them"
            found.add("missing-entry", self._seen.reader.paths.index, 0, 0, why)

    def _had_index(self) -> bool:
        """Return True if the store's last writer kept an index: as it recorded, else as RocketMQ does by default."""
        reader, record = self._seen.reader, self._seen.record
        if reader.paths.index.is_dir() or reader.checkpoint.index_msg_timestamp > 0:
            return True
        if record is not None:
            return record.index is not None
        return reader.config.message_index_enable

    def _entries(
        self, file: IndexFile, numbers: npt.NDArray[np.int32], found: Findings, kind: str, detail: str
    ) -> None:
        start = HEADER_SIZE + SLOT_SIZE * file.hash_slot_num
        for number in numbers.tolist():
            found.add(kind, file.path, start + ENTRY_SIZE * number, ENTRY_SIZE, f"entry {number}: {detail}")


def follow_chains(
    entries: npt.NDArray[np.void], first: int, heads: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.bool_], int, int]:
    """Follow entries from number `first` on, with the newest entry of each slot in `heads`.

    Returns a mask of those that name another predecessor, and their lowest and highest physical offset.
    """
    if COMPILED is not None:
        wrong = np.empty(len(entries), np.bool_)
        return wrong, *COMPILED.follow_chain(entries.view(np.uint8), first, heads, wrong.view(np.uint8))
    slots = entries["key_hash"].astype(np.int64) % len(heads)
    numbers = np.arange(first, first + len(entries), dtype=np.int32)
    order = np.argsort(slots, kind="stable")
    previous = heads[slots]
    same = slots[order][1:] == slots[order][:-1]
    previous[order[1:][same]] = numbers[order[:-1][same]]
    heads[slots[order]] = numbers[order]
    phy_offsets = entries["phy_offset"]
    return entries["prev_index"] != previous, int(phy_offsets.min()), int(phy_offsets.max())


def _compare_block(number: int, known: CheckedFile, block: int, stretch: Stretch) -> None:
    """Compare a block of a file's entries with a stretch of the log."""
    first, entries = known.block(block)
    wrong = wrong_entries(entries, first, known.file.header.begin_timestamp, stretch)
    phy_offsets = entries["phy_offset"][wrong].astype(np.int64)
    room = max(_MAX_BAD - len(stretch.out.wrong), 0)
    bad = zip((first + wrong[:room]).tolist(), phy_offsets.tolist(), strict=False)
    stretch.out.wrong += [(number, entry, phy_offset) for entry, phy_offset in bad]
    stretch.out.more += max(len(wrong) - room, 0)


def wrong_entries(entries: npt.NDArray[np.void], first: int, begin: int, stretch: Stretch) -> npt.NDArray[np.intp]:
    """Return those of the entries from number `first` on that are of no record of the stretch, but claim to be.

    `begin` is the file's first time. Pairs that have an entry are marked as seen.
    """
    expected = stretch.expected
    pairs = expected.pairs
    if COMPILED is not None:
        bad = np.empty(len(entries), np.bool_)
        COMPILED.match_entries(
            entries.view(np.uint8),
            first == 1,
            (stretch.start, stretch.stop),
            (in_row(pairs), in_row(expected.store_timestamps)),
            begin,
            stretch.seen.view(np.uint8),
            bad.view(np.uint8),
        )
        return np.flatnonzero(bad)
    phy_offsets = entries["phy_offset"].astype(np.int64)
    mine = np.flatnonzero((phy_offsets >= stretch.start) & (phy_offsets < stretch.stop))
    wanted = ((phy_offsets[mine] - stretch.start) << 32) | (entries["key_hash"][mine].astype(np.int64) & 0xFFFFFFFF)
    good = np.zeros(len(mine), bool)
    if len(pairs) and len(mine):
        at = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
        good = pairs[at] == wanted
        stretch.seen[at[good]] = True
        if begin > 0:
            seconds = np.clip(np.trunc((expected.store_timestamps[at] - begin) / 1000), 0, _MAX_SECONDS).astype(
                np.int64
            )
            # a file's first entry counts from the file before
            good &= (entries["time_diff"][mine] == seconds) | (first + mine == 1)
    return mine[~good]
