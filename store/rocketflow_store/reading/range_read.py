"""A range of a queue as RecordBatches: every message of it, or an error, or a report of the skipped ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS, UNIT_SIZE
from rocketflow_store.model.errors import (
    CorruptRecordError,
    DamagedBodyError,
    OffsetOutOfRangeError,
    StoreAccessError,
    StoreError,
    UnknownColumnError,
    UnreadableError,
)
from rocketflow_store.model.system_flags import COMPRESSED_FLAG
from rocketflow_store.reading.queue_units import plain_queue_units, plain_units
from rocketflow_store.reading.skipped import NO_LOG_FILE, NO_UNIT, REMOVED, SkippedMessages
from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.arrow.columns import BODY_ERROR, DEFAULT_COLUMNS, SOURCE_COLUMNS
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.checked_columns import EVERY_CRC, PLACE, RECORD_CRC
from rocketflow_store.records.decoding.decode import PLACE_COLUMNS, ColumnBuilder, decompressed_runs
from rocketflow_store.records.decoding.inner_batches import RECORD_COLUMNS, NoBatchBodyError, unwrap, without_batch
from rocketflow_store.views.queues.consume_queue import lost, pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.reading.tag_codes import ConfirmedTagCodes
    from rocketflow_store.records.decoding.checked_columns import CheckedColumns
    from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue

    Units = npt.NDArray[np.void]
    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

Condition: TypeAlias = "Callable[[pa.Array], npt.NDArray[np.bool_]]"
"""Returns the mask of the chosen rows for their properties, a map column."""

BLOCK: Final = 1 << 16
"""Queue offsets that are looked up at once."""
_MAX_CHUNK_ROWS: Final = 8192
_MAX_DECOMPRESSED: Final = 32 << 20
"""A batch of decompressed bodies ends with this many bytes."""
_LOST: Final = "the message is lost with the end of the log"
_GAP: Final = "messages of the range are in no record that the queue knows"


@dataclass(frozen=True, slots=True)
class RowChoice:
    """The rows of a read: those with the tags whose properties meet the condition. No body is needed to choose."""

    tag_filter: TagFilter
    condition: Condition | None = None

    @property
    def matches_all(self) -> bool:
        return self.tag_filter.matches_all and self.condition is None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `mask` asks for."""
        tags = () if self.tag_filter.matches_all else ("tags",)
        return tags if self.condition is None else (*tags, "properties")

    def mask(self, column: Callable[[str], pa.Array], count: int) -> Mask:
        """Return the mask of the chosen rows of `count`, whose columns `column` returns."""
        mask = np.ones(count, bool)
        if not self.tag_filter.matches_all:
            mask &= self.tag_filter.mask_tags(column("tags"))
        if self.condition is not None:
            mask &= self.condition(column("properties"))
        return mask

    def mask_batch(self, batch: pa.RecordBatch) -> Mask:
        """Return the mask of the chosen rows of a batch, which has `columns`."""
        return self.mask(lambda name: batch.column(batch.schema.get_field_index(name)), batch.num_rows)


ALL_ROWS: Final = RowChoice(TagFilter.parse(None))


def decodes(columns: Iterable[str]) -> bool:
    """Return True if a read of these columns has to decompress bodies."""
    return not {"body", BODY_ERROR}.isdisjoint(columns)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Request of a read: columns, the choice of its rows, and the number of bytes of a batch."""

    columns: tuple[str, ...]
    choice: RowChoice
    max_batch_bytes: int

    @property
    def tag_filter(self) -> TagFilter:
        """The tags of the rows."""
        return self.choice.tag_filter

    @classmethod
    def of(
        cls,
        columns: Sequence[str] | None,
        tags: str | None,
        max_batch_bytes: int,
        faults: ReadFaults,
        condition: Condition | None = None,
    ) -> Self:
        """Return the request; raise UnknownColumnError for an unknown column.

        None are the default columns, with `bodyError` if `faults` returns bodies that cannot be decoded.
        """
        defaults = (*DEFAULT_COLUMNS, BODY_ERROR) if faults.returns_bad_bodies else DEFAULT_COLUMNS
        names = defaults if columns is None else tuple(columns)
        for name in names:
            if name not in SOURCE_COLUMNS:
                raise UnknownColumnError(name, SOURCE_COLUMNS)
        return cls(names, RowChoice(TagFilter.parse(tags), condition), max_batch_bytes)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Units with their queue and physical offsets; `counts` are their messages, None if each has one."""

    units: Units
    offsets: Ints
    places: Ints
    counts: Ints | None

    @classmethod
    def of(cls, units: Units, offsets: Ints, batches: Units | None = None) -> _Rows:
        """Return plain units as rows; `batches` are those of a BatchCQ topic, each with several messages."""
        counts = None if batches is None else batches["batch_size"].astype(np.int64)
        return cls(units, offsets, units["phy_offset"].astype(np.int64), counts)

    def take(self, rows: slice | npt.NDArray[np.intp]) -> _Rows:
        """Return some of the rows."""
        counts = None if self.counts is None else self.counts[rows]
        return _Rows(self.units[rows], self.offsets[rows], self.places[rows], counts)

    def others(self, rows: Iterable[int]) -> npt.NDArray[np.intp]:
        """Return the numbers of all rows but these."""
        return np.setdiff1d(np.arange(len(self.units)), list(rows))

    def skipped(self, faults: dict[int, str]) -> list[SkippedMessages]:
        """Return the messages that an answer without these rows lacks."""
        counts = np.ones(len(self.units), np.int64) if self.counts is None else self.counts
        return [
            SkippedMessages(int(self.offsets[row]), int(counts[row]), int(self.places[row]), why)
            for row, why in sorted(faults.items())
        ]


class RangeRead:
    """A read of one queue; `faults` decides about messages that cannot be returned."""

    def __init__(
        self,
        log: CommitLogView,
        queues: QueueTable,
        identity: QueueIdentity,
        wanted: Wanted,
        confirmed: ConfirmedTagCodes,
        faults: ReadFaults,
    ) -> None:
        self._log, self._queues, self._identity = log, queues, identity
        self._wanted, self._confirmed, self._faults = wanted, confirmed, faults

    def batches(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read the messages [start, end)."""
        topic, queue_id = self._identity.topic, self._identity.queue_id
        batch_queue = self._queues.find_batch(topic, queue_id)
        for first, stop in self._blocks(start, end):
            if batch_queue is not None:
                yield from self._of_batch_queue(batch_queue, first, stop)
            else:
                units = plain_queue_units(self._queues, topic, queue_id, first, stop, self._faults)
                yield from self._of_units(units, np.arange(first, stop))

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the part of [start, end) within the queue's bounds, in blocks; retention may continue meanwhile."""
        if start >= end:
            return
        low, high = self._bounds()
        if low <= start and high < end:
            self._faults.meet(self._out_of_range(end))
        reached, stop = start, min(end, high)
        while True:
            if reached < low:
                self._faults.meet(self._out_of_range(reached))
                removed, reached = reached, min(low, end)
                self._skip(self._directory(), [SkippedMessages(removed, reached - removed, -1, REMOVED)])
            if reached >= stop:
                return
            following = min(reached + BLOCK, stop)
            if following > high:
                raise self._out_of_range(following)
            yield reached, following
            reached = following
            if reached < stop:
                low, high = self._bounds()

    def _of_units(self, units: Units, offsets: Ints) -> Iterator[pa.RecordBatch]:
        """Read the messages at `offsets`, which are consecutive, by their units."""
        wanted, first, stop = self._wanted, int(offsets[0]), int(offsets[-1]) + 1
        there = written(units) & ~pre_blank(units)
        if not there.all():
            self._without_unit(offsets[~there])
            units, offsets = units[there], offsets[there]
        if not wanted.tag_filter.matches_all:
            codes = units["tags_code"].astype(np.int64)
            keep = wanted.tag_filter.mask_codes(codes) | (codes <= MAX_EXT_ADDRESS) | lost(units)
            queue = self._queues.find(self._identity.topic, self._identity.queue_id)
            if queue is not None:
                keep |= queue.misplaced(first, stop)[offsets - first]
            keep |= self._in_doubt(units, offsets, keep)
            if not keep.all():
                units, offsets = units[keep], offsets[keep]
        every = _Rows.of(units, offsets)
        for rows in chunks(np.maximum(units["msg_size"], 0), wanted.max_batch_bytes, _MAX_CHUNK_ROWS):
            yield from self._decode(every.take(rows), wanted.columns, wanted.choice)

    def _in_doubt(self, units: Units, offsets: Ints, matched: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the units whose tags code is not wanted and was not confirmed by a record of the topic."""
        codes = units["tags_code"].astype(np.int64).astype(np.int32)
        in_doubt = ~matched & ~self._confirmed.mask(codes)
        if in_doubt.any():
            rows = np.flatnonzero(in_doubt)
            _, first = np.unique(codes[rows], return_index=True)
            self._confirm(units, offsets, np.sort(rows[first]))
            in_doubt &= ~self._confirmed.mask(codes)
        return in_doubt

    def _confirm(self, units: Units, offsets: Ints, rows: npt.NDArray[np.intp]) -> None:
        """Compare the tags codes of `rows` with their records."""
        found: set[int] = set()
        places = units["phy_offset"].astype(np.int64)
        for some in chunks(np.maximum(units["msg_size"][rows], 0), self._wanted.max_batch_bytes, _MAX_CHUNK_ROWS):
            chosen = rows[some]
            for part, mapped in self._log.by_file(places[chosen]):
                at = chosen[part]
                try:
                    records = self._log.columns(mapped, units[at])
                    records.check_place(places[at], offsets[at], self._identity)
                    faults = self._log.faults(records, mapped, bodies=False)
                except StoreError:  # if it matters, the read meets it again
                    continue
                good = np.setdiff1d(np.arange(records.count), list(faults))
                if len(good):
                    records = records.keep(good)
                    tags = ColumnBuilder(records, self._identity, offsets[at][good], places[at][good]).column("tags")
                    hashes, _ = string_hashes(tags)
                    codes = units["tags_code"][at][good].astype(np.int64).astype(np.int32)
                    found.update(codes[codes == hashes.view(np.int32)].tolist())
        self._confirmed.add(found)

    def _of_batch_queue(self, queue: BatchConsumeQueue, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read messages [start, end) of a BatchCQ topic's queue, those of inner batches each as a row."""
        wanted, units = self._wanted, queue.units_holding(start, end)
        bases = units["msg_base_offset"].astype(np.int64)
        self._between_batches(bases, bases + units["batch_size"], start, end)
        more = tuple(dict.fromkeys([*wanted.columns, "queueOffset", *wanted.choice.columns]))
        needed = tuple(dict.fromkeys([*more, *RECORD_COLUMNS]))
        every = _Rows.of(plain_units(units), bases, units)
        for rows in chunks(every.units["msg_size"], wanted.max_batch_bytes, _MAX_CHUNK_ROWS):
            for records in self._decode(every.take(rows), needed, ALL_ROWS):
                for part in self._unwrap(records, more):
                    offsets = np.asarray(part.column(part.schema.get_field_index("queueOffset")))
                    keep = (offsets >= start) & (offsets < end)
                    keep &= wanted.choice.mask_batch(part)
                    if keep.any():
                        chosen = part.select(wanted.columns)
                        yield chosen if keep.all() else chosen.take(_indices(np.flatnonzero(keep)))

    def _between_batches(self, bases: Ints, ends: Ints, start: int, end: int) -> None:
        """Meet the messages of [start, end) that are in no record."""
        befores = np.concatenate([[start], np.clip(ends, start, end)])
        afters = np.concatenate([np.clip(bases, start, end), [end]])
        gaps = np.flatnonzero(afters > befores)
        if len(gaps) == 0:
            return
        first = int(befores[gaps[0]])
        self._faults.meet(CorruptRecordError(self._identity.topic, first, f"{_GAP} ({self._where(first)})"))
        missing = [SkippedMessages(int(befores[at]), int(afters[at] - befores[at]), -1, _GAP) for at in gaps.tolist()]
        self._skip(self._directory(), missing)

    def _unwrap(self, records: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        try:
            yield unwrap(records, columns)
        except NoBatchBodyError as error:
            topic, offset = self._identity.topic, records.column("queueOffset")[error.row].as_py()
            yield from self._unwrap(records.slice(0, error.row), columns)
            if self._keeps(topic, SkippedMessages(offset, 1, -1, str(error))):
                yield without_batch(records, error, columns)
            yield from self._unwrap(records.slice(error.row + 1), columns)

    def _decode(self, rows: _Rows, columns: tuple[str, ...], choice: RowChoice) -> Iterator[pa.RecordBatch]:
        """Read the records of `rows`."""
        in_doubt = not (choice.matches_all and PLACE_COLUMNS.issuperset(columns))
        covered = 0
        for run, mapped in self._log.by_file(rows.places):
            if run.start > covered:
                self._without_file(rows.take(slice(covered, run.start)))
            covered = run.stop
            mine = rows.take(run)
            checked = self._checked(mapped, mine, columns, choice, in_doubt=in_doubt)
            if checked is not None:
                yield from chosen_rows(checked, columns, choice)
                continue
            found = self._records(mapped, mine)
            if found is None:
                continue
            records, part = found
            records.check_place(part.places, part.offsets, self._identity)
            faults = self._log.faults(records, mapped, bodies=decodes(columns)) if in_doubt else records.faults
            if faults:
                faults |= dict.fromkeys(np.flatnonzero(lost(part.units)).tolist(), _LOST)
                self._damaged_rows(mapped, part, faults)
                good = part.others(faults)
                records, part = records.keep(good), part.take(good)
            if records.count:
                yield from self._columns(mapped, records, part, columns, choice)
        if covered < len(rows.units):
            self._without_file(rows.take(slice(covered, None)))

    def _checked(
        self, mapped: MappedFile, rows: _Rows, columns: tuple[str, ...], choice: RowChoice, *, in_doubt: bool
    ) -> CheckedColumns | None:
        """Return the records of a file that are all usual and sound; None if they have to be looked at one by one.

        The contents of records are checked if they are `in_doubt`.
        """
        contents = PLACE if not in_doubt else EVERY_CRC if decodes(columns) else RECORD_CRC
        asked = columns if choice.matches_all else (*columns, *choice.columns)
        try:
            return self._log.checked_columns(mapped, rows.units, rows.offsets, self._identity, asked, contents)
        except StoreError:  # the read meets it again
            return None

    def _records(self, mapped: MappedFile, rows: _Rows) -> tuple[RecordColumns, _Rows] | None:
        """Return the readable records of a file, and their rows; None if there are none."""
        try:
            return self._log.columns(mapped, rows.units), rows
        except UnreadableError as error:
            self._faults.meet(error)
            good = self._log.readable(mapped, rows.units)
            self._skip(mapped.path, rows.skipped(dict.fromkeys(rows.others(good).tolist(), error.why)))
            rows = rows.take(good)
            return (self._log.columns(mapped, rows.units), rows) if len(good) else None
        except StoreAccessError as error:
            if mapped.end_offset > self._log.min_phy_offset and not mapped.is_replaced():
                raise
            self._faults.meet(self._out_of_range(int(rows.offsets[0])), error)
            self._skip(mapped.path, rows.skipped(dict.fromkeys(range(len(rows.units)), REMOVED)))
            return None

    def _columns(
        self, mapped: MappedFile, records: RecordColumns, rows: _Rows, columns: tuple[str, ...], choice: RowChoice
    ) -> Iterator[pa.RecordBatch]:
        """Yield the chosen ones of sound records as batches, their bodies decompressed."""
        identity = self._identity
        builder = ColumnBuilder(records, identity, rows.offsets, rows.places)
        if not decodes(columns) or not (records.sys_flag & COMPRESSED_FLAG).any():
            yield from chosen_rows(builder, columns, choice)
            return
        if not choice.matches_all:
            chosen = np.flatnonzero(choice.mask(builder.column, records.count))
            records, rows = records.keep(chosen), rows.take(chosen)

        def keeps(row: int, why: str) -> bool:
            return self._keeps(mapped.path, rows.skipped({row: why})[0])

        for run, bodies in decompressed_runs(records, _MAX_DECOMPRESSED, keeps):
            some = records.keep(np.array(run))
            yield ColumnBuilder(some, identity, rows.offsets[run], rows.places[run], bodies).batch(columns)

    # -- messages that cannot be returned

    def _damaged_rows(self, mapped: MappedFile, rows: _Rows, faults: dict[int, str]) -> None:
        """Meet rows whose records are damaged, or are other messages."""
        first = min(faults)
        why = f"{faults[first]} ({self._where(int(rows.offsets[first]))})"
        self._faults.meet(CorruptRecordError(mapped.path, int(rows.places[first]), why))
        self._skip(mapped.path, rows.skipped(faults))

    def _keeps(self, place: Path | str, one: SkippedMessages) -> bool:
        """Return True to return a message whose body cannot be decoded as it is stored; else it is skipped."""
        identity = self._identity
        message = identity.topic, identity.queue_id, one.queue_offset
        if self._faults.keeps_bad_body(DamagedBodyError(place, one.phy_offset, message, one.why)):
            return True
        why = f"skipped in topic {identity.topic}, queue {identity.queue_id}: body: {one.why}"
        root = self._queues.paths.root
        self._faults.skipped_body([one], store=root, place=place, offset=one.queue_offset, why=why)
        return False

    def _without_unit(self, offsets: Ints) -> None:
        """Meet messages without a unit in the queue."""
        first = int(offsets[0])
        self._faults.meet(CorruptRecordError(self._directory(), first * UNIT_SIZE, f"{NO_UNIT} ({self._where(first)})"))
        runs = np.split(offsets, np.flatnonzero(np.diff(offsets) != 1) + 1)
        self._skip(self._directory(), [SkippedMessages(int(one[0]), len(one), -1, NO_UNIT) for one in runs])

    def _without_file(self, rows: _Rows) -> None:
        """Meet messages whose CommitLog file does not exist."""
        first, place = int(rows.offsets[0]), int(rows.places[0])
        is_removed, where = place < self._log.min_phy_offset, f"{NO_LOG_FILE} ({self._where(first)})"
        missing = CorruptRecordError(self._directory(), first * UNIT_SIZE, where)
        self._faults.meet(self._out_of_range(first) if is_removed else missing)
        count = len(rows.units) if rows.counts is None else int(rows.counts.sum())
        why = REMOVED if is_removed else NO_LOG_FILE
        self._skip(self._directory(), [SkippedMessages(first, count, place, why)])

    def _out_of_range(self, queue_offset: int) -> OffsetOutOfRangeError:
        identity = self._identity
        return OffsetOutOfRangeError(identity.topic, identity.queue_id, queue_offset, *self._bounds())

    def _bounds(self) -> tuple[int, int]:
        return self._queues.bounds(self._identity.topic, self._identity.queue_id)

    def _skip(self, place: Path | str, rows: list[SkippedMessages]) -> None:
        first, identity = rows[0], self._identity
        why = f"skipped in topic {identity.topic}, queue {identity.queue_id}: {first.why}"
        self._faults.skipped(rows, store=self._queues.paths.root, place=place, offset=first.queue_offset, why=why)

    def _where(self, queue_offset: int) -> str:
        return f"topic {self._identity.topic}, queue {self._identity.queue_id}, queue offset {queue_offset}"

    def _directory(self) -> Path:
        return self._queues.paths.consume_queue / self._identity.topic / str(self._identity.queue_id)


def chosen_rows(
    builder: ColumnBuilder | CheckedColumns, columns: tuple[str, ...], choice: RowChoice
) -> Iterator[pa.RecordBatch]:
    """Yield the chosen rows, unless there are none."""
    if choice.matches_all:
        yield builder.batch(columns)
        return
    mask = choice.mask(builder.column, builder.count)
    if not mask.any():
        return
    batch = builder.batch(columns)
    if mask.all():
        yield batch
    else:
        yield batch.take(_indices(np.flatnonzero(mask)))


def _indices(rows: npt.NDArray[np.intp]) -> pa.Array:
    import pyarrow

    from rocketflow_store.records.arrow.gather import int_array

    return int_array(rows, pyarrow.int64())
