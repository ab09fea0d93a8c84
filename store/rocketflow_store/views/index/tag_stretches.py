"""Find the messages with TAGS that the index names by these, from its entries and their records.

Brokers of several versions may have written a store one after the other. A stretch is a run of records with TAGS that
all have an index entry for them, or all lack it. Of a large index only samples are read, and the change between two
samples that differ is searched for; a stretch between samples that agree is then not found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.arrow.gather import fixed_width_at
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.views.index.index_file import IndexFile

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

ALL_ENTRIES: Final = 1 << 18
"""An index with at most this many entries is read completely."""
_BLOCK_ENTRIES: Final = 1 << 14
_SAMPLES: Final = 128
_SAMPLE_ENTRIES: Final = 32
_NEWEST_ENTRIES: Final = 1 << 16
_HASH_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class TagStretch:
    """Physical offsets `[begin, end)` in which all messages with TAGS have an index entry for them, or none has."""

    begin_phy_offset: int
    end_phy_offset: int
    tag_entries: bool


@dataclass(frozen=True, slots=True)
class TagStretches:
    """The stretches of a log, oldest first; not `exact` if only samples were read."""

    stretches: tuple[TagStretch, ...] = ()
    exact: bool = True


class TagJudge:
    """Judges records by the entries of `files`, oldest first, which point into `log`."""

    def __init__(self, files: Sequence[IndexFile], log: CommitLogView) -> None:
        self._log = log
        tables = [one.entry_table()[1:] for one in files]
        self._tables = [one for one in tables if len(one)]
        self._starts = np.cumsum([0, *(len(one) for one in self._tables)])

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(self._starts[-1])

    def newest(self, *, skip_partial: bool = False) -> bool | None:
        """Return True if the newest record with TAGS has an entry for them; None if no record has TAGS.

        With `skip_partial` the newest record is ignored if it lacks the entry and there are others: its put may have
        been interrupted.
        """
        found: bool | None = None
        stop = self.entries
        floor = max(stop - _NEWEST_ENTRIES, 0)
        step = _SAMPLE_ENTRIES
        while stop > floor:
            start = max(stop - step, floor)
            _, named = self._judge(start, stop)
            for one in named[::-1].tolist():
                if found is None and skip_partial and not one:
                    found, skip_partial = one, False
                    continue
                return bool(one)
            stop, step = start, step * 4
        return found

    def stretches(self, floor: int, end: int) -> TagStretches:
        """Return the stretches of a log of `[floor, end)`."""
        if self.entries <= ALL_ENTRIES:
            blocks = range(0, self.entries, _BLOCK_ENTRIES)
            parts = [self._judge(start, min(start + _BLOCK_ENTRIES, self.entries)) for start in blocks]
            return TagStretches(_stretches(parts, floor, end))
        starts = np.linspace(0, self.entries - _SAMPLE_ENTRIES, _SAMPLES).astype(np.int64).tolist()
        samples = [(start, *self._judge(start, start + _SAMPLE_ENTRIES)) for start in starts]
        samples = [one for one in samples if len(one[1])]
        parts = [one[1:] for one in samples]
        for before, after in pairwise(samples):
            if before[2][-1] != after[2][0]:
                parts.append(self._change(before[0], after[0], bool(before[2][-1])))
        return TagStretches(_stretches(parts, floor, end), exact=False)

    def _change(self, low: int, high: int, before: bool) -> tuple[Ints, Mask]:
        """Return the judged records around a change between the entries `low` (whose value is `before`) and `high`."""
        while high - low > _SAMPLE_ENTRIES:
            middle = (low + high) // 2
            offsets, named = self._judge(middle, min(middle + _SAMPLE_ENTRIES, high))
            if len(offsets) == 0:
                break
            if bool(named[0]) != before:
                high = middle
            else:
                low = middle
        return self._judge(low, min(high + _SAMPLE_ENTRIES, self.entries))

    def _judge(self, start: int, stop: int) -> tuple[Ints, Mask]:
        """Return the records with TAGS of entries `[start, stop)`, and a mask of those with an entry for TAGS.

        Records are physical offsets. Entries of the last one that lie after `stop` count too.
        """
        parts = list(self._around(start, stop))
        if not parts:
            return np.zeros(0, np.int64), np.zeros(0, bool)
        entries: npt.NDArray[np.void] = np.concatenate(parts)
        offsets = entries["phy_offset"].astype(np.int64)
        different = np.unique(offsets)
        found, hashes = self._tagged(different)
        known = np.searchsorted(different, offsets) << _HASH_BITS | (entries["key_hash"].astype(np.int64) & 0xFFFFFFFF)
        wanted = np.searchsorted(different, found) << _HASH_BITS | hashes
        return found, np.isin(wanted, known)

    def _around(self, start: int, stop: int) -> Iterator[npt.NDArray[np.void]]:
        """Yield entries `[start, stop)`, and the following entries of the last record."""
        table = np.searchsorted(self._starts, start, side="right") - 1
        last = -1
        for number in range(int(table), len(self._tables)):
            entries, base = self._tables[number], int(self._starts[number])
            begin, end = max(start - base, 0), min(stop - base, len(entries))
            if begin < end:
                yield entries[begin:end]
                last = int(entries["phy_offset"][end - 1])
            after = max(end, 0)
            same = entries["phy_offset"][after : after + _SAMPLE_ENTRIES] == last
            more = len(same) if same.all() else int(np.argmin(same))
            if more:
                yield entries[after : after + more]
            if after + more < len(entries):
                return

    def _tagged(self, phy_offsets: Ints) -> tuple[Ints, Ints]:
        """Return the records whose TAGS should be indexed, and the hashes of these entries."""
        found, hashes = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for rows, mapped in self._log.by_file(phy_offsets):
            base = mapped.file_from_offset
            positions = phy_offsets[rows] - base
            positions = positions[(positions >= 0) & (positions <= mapped.file_size - MIN_RECORD_SIZE)]
            try:
                for position in positions.tolist():
                    mapped.populate(position, position + MIN_RECORD_SIZE)
                sizes = fixed_width_at(np.frombuffer(mapped.buffer, np.uint8), ">i4", positions).astype(np.int64)
                for position, size in zip(positions.tolist(), sizes.tolist(), strict=True):
                    mapped.populate(position, min(position + max(size, MIN_RECORD_SIZE), mapped.file_size))
            except UnreadableError:
                continue  # their TAGS are unknown
            records = RecordColumns(mapped.buffer, positions, sizes)
            records.check_own_offset(base)
            if records.faults:
                records = records.keep(np.setdiff1d(np.arange(records.count), list(records.faults)))
            if records.count:
                dispatched = rows_of_records(records, base, (0,))
                entries = dispatched.entries
                found.append(dispatched.phy_offsets[entries.of_row[entries.of_tag]])
                hashes.append(entries.hashes[entries.of_tag].astype(np.int64))
        return np.concatenate(found), np.concatenate(hashes)


def _stretches(parts: Sequence[tuple[Ints, Mask]], floor: int, end: int) -> tuple[TagStretch, ...]:
    """Return the stretches of judged records (physical offsets, named) in any order, of a log of `[floor, end)`."""
    if not any(len(offsets) for offsets, _ in parts):
        return ()
    phy_offsets, rows = np.unique(np.concatenate([offsets for offsets, _ in parts]), return_index=True)
    named = np.concatenate([flags for _, flags in parts])[rows]
    cuts = np.flatnonzero(named[1:] != named[:-1]) + 1
    begins = [min(floor, int(phy_offsets[0])), *phy_offsets[cuts].tolist()]
    ends = [*begins[1:], max(end, int(phy_offsets[-1]))]
    flags = named[np.append(0, cuts)].tolist()
    return tuple(TagStretch(*one) for one in zip(begins, ends, flags, strict=True))
