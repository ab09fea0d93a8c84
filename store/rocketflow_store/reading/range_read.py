"""A range of a queue as RecordBatches: every message of it, or an error, or a report of what was left out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS, UNIT_SIZE, units_of
from rocketflow_store.model.errors import (
    CorruptRecordError,
    OffsetOutOfRangeError,
    StoreAccessError,
    StoreError,
    UnreadableError,
)
from rocketflow_store.model.system_flags import COMPRESSED_FLAG
from rocketflow_store.reading.skipped import NO_LOG_FILE, NO_UNIT, SkippedMessages
from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.arrow.hashing import string_hashes
from rocketflow_store.records.decoding.decode import ColumnBuilder, decompressed_runs
from rocketflow_store.records.decoding.inner_batches import RECORD_COLUMNS, NoBatchBodyError, unwrap
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.consume_queue import lost, pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.get_message import QueueTable
    from rocketflow_store.reading.tag_codes import ConfirmedTagCodes
    from rocketflow_store.records.decoding.decode import QueueIdentity
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue

    Units = npt.NDArray[np.void]
    Ints = npt.NDArray[np.int64]

_MAX_CHUNK_ROWS: Final = 8192
_MAX_DECOMPRESSED: Final = 32 << 20
"""A batch ends with so many bytes of bodies, where they were compressed."""
_LOST: Final = "the message is lost: the log's end, where it was, is gone"
_REMOVED: Final = "removed by retention while they were read"
_GAP: Final = "messages of the range are in no record that the queue knows"
_OF_THE_PLACE: Final = frozenset({"topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "brokerName"})
"""Columns that the record's place tells, whatever its other bytes are."""


class RangeRead:
    """A read of one queue. Without `skip` the first message that cannot be given out raises.

    With it such messages are logged, and `on_skip` is called for them.
    """

    def __init__(
        self,
        log: CommitLogView,
        queues: QueueTable,
        identity: QueueIdentity,
        columns: tuple[str, ...],
        tag_filter: TagFilter,
        max_batch_bytes: int,
        confirmed: ConfirmedTagCodes,
        *,
        skip: bool,
        on_skip: Callable[[SkippedMessages], None] | None = None,
    ) -> None:
        self._log, self._queues, self._identity = log, queues, identity
        self._columns, self._tag_filter, self._max_batch_bytes = columns, tag_filter, max_batch_bytes
        self._confirmed, self._skip, self._on_skip = confirmed, skip, on_skip

    def removed(self, start: int, end: int) -> None:
        """Report that retention took the messages [start, end) before they were read."""
        if start < end:
            self._left_out(self._directory(), [SkippedMessages(start, end - start, -1, _REMOVED)])

    def of_units(self, units: Units, offsets: Ints) -> Iterator[pa.RecordBatch]:
        """Read the messages at `offsets`, which are consecutive, by their units."""
        first, stop = int(offsets[0]), int(offsets[-1]) + 1
        there = written(units) & ~pre_blank(units)
        if not there.all():
            self._without_unit(offsets[~there])
            units, offsets = units[there], offsets[there]
        if not self._tag_filter.matches_all:
            codes = units["tags_code"].astype(np.int64)
            keep = self._tag_filter.mask_codes(codes) | (codes <= MAX_EXT_ADDRESS) | lost(units)
            queue = self._queues.find(self._identity.topic, self._identity.queue_id)
            if queue is not None:
                keep |= queue.misplaced(first, stop)[offsets - first]
            keep |= self._in_doubt(units, offsets, keep)
            if not keep.all():
                units, offsets = units[keep], offsets[keep]
        for rows in chunks(np.maximum(units["msg_size"], 0), self._max_batch_bytes, _MAX_CHUNK_ROWS):
            yield from self._decode(units[rows], offsets[rows], self._columns, self._tag_filter)

    def _in_doubt(self, units: Units, offsets: Ints, matched: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return the units whose tags code is not wanted, and not one that a record of the topic confirmed."""
        codes = units["tags_code"].astype(np.int64).astype(np.int32)
        in_doubt = ~matched & ~self._confirmed.mask(codes)
        if in_doubt.any():
            rows = np.flatnonzero(in_doubt)
            _, first = np.unique(codes[rows], return_index=True)
            self._confirm(units, offsets, np.sort(rows[first]))
            in_doubt &= ~self._confirmed.mask(codes)
        return in_doubt

    def _confirm(self, units: Units, offsets: Ints, rows: npt.NDArray[np.intp]) -> None:
        """Hold the tags codes of `rows` against their records."""
        found: set[int] = set()
        places = units["phy_offset"].astype(np.int64)
        for some in chunks(np.maximum(units["msg_size"][rows], 0), self._max_batch_bytes, _MAX_CHUNK_ROWS):
            chosen = rows[some]
            for part, mapped in self._log.by_file(places[chosen]):
                at = chosen[part]
                try:
                    records = self._log.columns(mapped, units[at])
                    records.check_place(places[at], offsets[at], self._identity)
                    faults = self._log.faults(records, mapped, bodies=False)
                except StoreError:  # where it matters, the read meets it again
                    continue
                good = np.setdiff1d(np.arange(records.count), list(faults))
                if len(good):
                    records = records.keep(good)
                    tags = ColumnBuilder(records, self._identity, offsets[at][good], places[at][good]).column("tags")
                    hashes, _ = string_hashes(tags)
                    codes = units["tags_code"][at][good].astype(np.int64).astype(np.int32)
                    found.update(codes[codes == hashes.view(np.int32)].tolist())
        self._confirmed.add(found)

    def of_batch_queue(self, queue: BatchConsumeQueue, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Read messages [start, end) of a BatchCQ topic's queue, those of inner batches each as a row."""
        units = queue.units_holding(start, end)
        bases = units["msg_base_offset"].astype(np.int64)
        self._between_batches(bases, bases + units["batch_size"], start, end)
        more = tuple(dict.fromkeys([*self._columns, "queueOffset", "tags"]))
        needed = tuple(dict.fromkeys([*more, *RECORD_COLUMNS]))
        plain = plain_units(units)
        for rows in chunks(plain["msg_size"], self._max_batch_bytes, _MAX_CHUNK_ROWS):
            for records in self._decode(plain[rows], bases[rows], needed, TagFilter.parse(None), units[rows]):
                for part in self._unwrap(records, more):
                    offsets = np.asarray(part.column(part.schema.get_field_index("queueOffset")))
                    keep = (offsets >= start) & (offsets < end)
                    if not self._tag_filter.matches_all:
                        keep &= self._tag_filter.mask_tags(part.column(part.schema.get_field_index("tags")))
                    if keep.any():
                        wanted = part.select(self._columns)
                        yield wanted if keep.all() else wanted.take(_indices(np.flatnonzero(keep)))

    def _between_batches(self, bases: Ints, ends: Ints, start: int, end: int) -> None:
        """Report the messages of [start, end) that no record holds."""
        befores = np.concatenate([[start], np.clip(ends, start, end)])
        afters = np.concatenate([np.clip(bases, start, end), [end]])
        gaps = np.flatnonzero(afters > befores)
        if len(gaps) == 0:
            return
        if not self._skip:
            first = int(befores[gaps[0]])
            raise CorruptRecordError(self._identity.topic, first, f"{_GAP} ({self._where(first)})")
        missing = [SkippedMessages(int(befores[at]), int(afters[at] - befores[at]), -1, _GAP) for at in gaps.tolist()]
        self._left_out(self._directory(), missing)

    def _unwrap(self, records: pa.RecordBatch, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        try:
            yield unwrap(records, columns)
        except NoBatchBodyError as error:
            offset = records.column("queueOffset")[error.row].as_py()
            identity = self._identity
            why = f"{error} ({self._where(offset)})"
            if not self._skip:
                raise CorruptRecordError(identity.topic, offset, why) from error
            self._left_out(identity.topic, [SkippedMessages(offset, 1, -1, why)])
            yield from self._unwrap(records.slice(0, error.row), columns)
            yield from self._unwrap(records.slice(error.row + 1), columns)

    def _decode(
        self,
        units: Units,
        offsets: Ints,
        columns: tuple[str, ...],
        tag_filter: TagFilter,
        batches: Units | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read the records of `units`; `batches` are those of a BatchCQ topic, of which each holds several messages."""
        phy_offsets = units["phy_offset"].astype(np.int64)
        counts = None if batches is None else batches["batch_size"].astype(np.int64)
        in_doubt = not (tag_filter.matches_all and _OF_THE_PLACE.issuperset(columns))
        covered = 0
        for rows, mapped in self._log.by_file(phy_offsets):
            if rows.start > covered:
                self._without_file(offsets, phy_offsets, counts, slice(covered, rows.start))
            covered = rows.stop
            found, queue_offsets, places = units[rows], offsets[rows], phy_offsets[rows]
            taken = partial(self._leave_out, mapped, counts=None if counts is None else counts[rows])
            try:
                records = self._log.columns(mapped, found)
            except UnreadableError as error:
                if not self._skip:
                    raise
                good = self._log.readable(mapped, found)
                bad = np.setdiff1d(np.arange(len(found)), good)
                taken(queue_offsets, places, dict.fromkeys(bad.tolist(), error.why))
                if len(good) == 0:
                    continue
                found, queue_offsets, places = found[good], queue_offsets[good], places[good]
                taken = partial(taken, counts=None if counts is None else counts[rows][good])
                records = self._log.columns(mapped, found)
            except StoreAccessError:
                if not self._skip or mapped.end_offset > self._log.min_phy_offset:
                    self._refuse_removed(int(queue_offsets[0]), mapped.file_from_offset)
                    raise
                taken(queue_offsets, places, dict.fromkeys(range(len(found)), _REMOVED))
                continue
            records.check_place(places, queue_offsets, self._identity)
            faults = self._log.faults(records, mapped, bodies="body" in columns) if in_doubt else records.faults
            if faults:
                faults |= dict.fromkeys(np.flatnonzero(lost(found)).tolist(), _LOST)
                taken(queue_offsets, places, faults)
                good = np.setdiff1d(np.arange(records.count), list(faults))
                records, queue_offsets, places = records.keep(good), queue_offsets[good], places[good]
                taken = partial(taken, counts=None if counts is None else counts[rows][good])
                if records.count == 0:
                    continue
            identity = self._identity
            if "body" not in columns or not (records.sys_flag & COMPRESSED_FLAG).any():
                yield from _matching(ColumnBuilder(records, identity, queue_offsets, places), columns, tag_filter)
                continue
            for run, bodies in decompressed_runs(records, _MAX_DECOMPRESSED, partial(taken, queue_offsets, places)):
                some = records.keep(np.array(run))
                builder = ColumnBuilder(some, identity, queue_offsets[run], places[run], bodies)
                yield from _matching(builder, columns, tag_filter)
        if covered < len(units):
            self._without_file(offsets, phy_offsets, counts, slice(covered, len(units)))

    def _leave_out(
        self, mapped: MappedFile, queue_offsets: Ints, places: Ints, faults: dict[int, str], counts: Ints | None = None
    ) -> None:
        """Report rows that cannot be given out; CorruptRecordError of the first unless they are to be skipped."""
        if not self._skip:
            row = min(faults)
            where = self._where(int(queue_offsets[row]))
            raise CorruptRecordError(mapped.path, int(places[row]), f"{faults[row]} ({where})")
        rows = [
            SkippedMessages(int(queue_offsets[row]), 1 if counts is None else int(counts[row]), int(places[row]), why)
            for row, why in sorted(faults.items())
        ]
        self._left_out(mapped.path, rows)

    def _without_unit(self, offsets: Ints) -> None:
        """Report messages that the queue has no unit for."""
        if not self._skip:
            first = int(offsets[0])
            raise CorruptRecordError(self._directory(), first * UNIT_SIZE, f"{NO_UNIT} ({self._where(first)})")
        runs = np.split(offsets, np.flatnonzero(np.diff(offsets) != 1) + 1)
        self._left_out(self._directory(), [SkippedMessages(int(one[0]), len(one), -1, NO_UNIT) for one in runs])

    def _without_file(self, offsets: Ints, phy_offsets: Ints, counts: Ints | None, rows: slice) -> None:
        """Report messages whose CommitLog file is not there."""
        first, phy_offset = int(offsets[rows.start]), int(phy_offsets[rows.start])
        is_removed = phy_offset < self._log.min_phy_offset
        if not self._skip:
            self._refuse_removed(first, phy_offset)
            raise CorruptRecordError(self._directory(), first * UNIT_SIZE, f"{NO_LOG_FILE} ({self._where(first)})")
        count = rows.stop - rows.start if counts is None else int(counts[rows].sum())
        why = _REMOVED if is_removed else NO_LOG_FILE
        self._left_out(self._directory(), [SkippedMessages(first, count, phy_offset, why)])

    def _refuse_removed(self, queue_offset: int, phy_offset: int) -> None:
        """Raise OffsetOutOfRangeError where retention took what is at `phy_offset` while it was read."""
        identity = self._identity
        low, high = self._queues.bounds(identity.topic, identity.queue_id)
        if phy_offset < self._log.min_phy_offset:
            raise OffsetOutOfRangeError(identity.topic, identity.queue_id, queue_offset, low, high)

    def _left_out(self, place: Path | str, rows: Sequence[SkippedMessages]) -> None:
        first, count = rows[0], sum(one.count for one in rows)
        why = f"left out of topic {self._identity.topic}, queue {self._identity.queue_id}: {first.why}"
        events.tell(events.SKIPPED, self._queues.paths.root, place, why, offset=first.queue_offset, count=count)
        if self._on_skip is not None:
            for one in rows:
                self._on_skip(one)

    def _where(self, queue_offset: int) -> str:
        return f"topic {self._identity.topic}, queue {self._identity.queue_id}, queue offset {queue_offset}"

    def _directory(self) -> Path:
        return self._queues.paths.consume_queue / self._identity.topic / str(self._identity.queue_id)


def plain_units(units: Units) -> Units:
    """Return units of a BatchCQ topic's queue as plain ones."""
    plain = units_of(units["phy_offset"], units["msg_size"])
    plain["tags_code"] = units["tags_code"]
    return plain


def _matching(builder: ColumnBuilder, columns: tuple[str, ...], tag_filter: TagFilter) -> Iterator[pa.RecordBatch]:
    """Yield the rows whose tag matches, where there are any."""
    if tag_filter.matches_all:
        yield builder.batch(columns)
        return
    mask = tag_filter.mask_tags(builder.column("tags"))
    batch = builder.batch(columns)
    if mask.all():
        yield batch
    elif mask.any():
        yield batch.take(_indices(np.flatnonzero(mask)))


def _indices(rows: npt.NDArray[np.intp]) -> pa.Array:
    import pyarrow

    from rocketflow_store.records.arrow.gather import int_array

    return int_array(rows, pyarrow.int64())
