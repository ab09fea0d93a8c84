"""Reads that a writing store and a read-only reader share: get, by offset, by key, by time, ranges as Arrow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store import events
from rocketflow_store.columnar.chunking import chunks
from rocketflow_store.columnar.decode import ColumnBuilder, QueueIdentity, decompressed_runs
from rocketflow_store.columnar.inner_batches import RECORD_COLUMNS, NoBatchBodyError, unwrap
from rocketflow_store.columns import DEFAULT_COLUMNS, SOURCE_COLUMNS
from rocketflow_store.errors import (
    CorruptRecordError,
    InvalidMessageIdError,
    OffsetOutOfRangeError,
    StoreAccessError,
    StoreError,
    UnknownColumnError,
    UnreadableError,
)
from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS, UNIT_DTYPE, units_of
from rocketflow_store.format.message_id import decode_offset_msg_id
from rocketflow_store.layout.deleted_topics import TopicFloors
from rocketflow_store.message import COMPRESSED_FLAG
from rocketflow_store.queues.consume_queue import lost, pre_blank, written
from rocketflow_store.queues.offset_by_time import OffsetByTime, TimeBoundary, offset_by_time
from rocketflow_store.reading.get_message import MessageGetter
from rocketflow_store.tags import TagFilter
from rocketflow_store.topic_names import LMQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.config import StoreConfig
    from rocketflow_store.index.index_service import IndexService
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.mapped_files.mapped_file import MappedFile
    from rocketflow_store.message import MessageExt
    from rocketflow_store.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.reading.get_message import QueueTable
    from rocketflow_store.reading.get_message_result import GetMessageResult

    Units = npt.NDArray[np.void]

_MAX_TIMESTAMP: Final = (1 << 63) - 1
_MAX_CHUNK_ROWS: Final = 8192
_MAX_DECOMPRESSED: Final = 32 << 20
"""A batch ends with so many bytes of bodies, where they were compressed."""
_LOST: Final = "the message is lost: the log's end, where it was, is gone"
NO_UNIT: Final = "the ConsumeQueue has no units for them"
_GAP: Final = "messages of the range are in no record that the queue knows"
_OF_THE_PLACE: Final = frozenset({"topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "brokerName"})
"""Columns that the record's place tells, whatever its other bytes are."""


class StoreQueries:
    """Reads over one store."""

    def __init__(
        self,
        log: CommitLogView,
        queues: QueueTable,
        index: IndexService,
        config: StoreConfig,
        max_phy_offset: Callable[[], int],
    ) -> None:
        self._log, self._queues, self._index, self._config = log, queues, index, config
        self._max_phy_offset = max_phy_offset
        self._floors = TopicFloors(queues.paths)
        self._getter = MessageGetter(log, queues, config, max_phy_offset)

    def identity(self, topic: str, queue_id: int) -> QueueIdentity:
        """Who the records of a queue must say they are."""
        return QueueIdentity(topic, queue_id, self._config.broker_name, exact=not topic.startswith(LMQ_PREFIX))

    def units(self, topic: str, queue_id: int, start: int, end: int, on_missing: str = "error") -> Units:
        """ConsumeQueue units [start, end); OffsetOutOfRangeError where the range is not wholly there.

        With on_missing="skip" those of a queue file that is gone are zeros. Of a BatchCQ topic each message has one:
        that of its record.
        """
        low, high = self._check_range(self.identity(topic, queue_id), start, end)
        if start == end:
            return np.zeros(0, UNIT_DTYPE)
        queue, batch_queue = self._queues.find(topic, queue_id), self._queues.find_batch(topic, queue_id)
        if batch_queue is not None:
            holding = batch_queue.units_holding(start, end)
            found = _plain_units(holding)[_record_of_message(holding, start, end)]
        else:
            found = queue.units(start, end) if queue is not None else np.zeros(0, UNIT_DTYPE)
            if len(found) < end - start and on_missing == "skip" and queue is not None:
                return queue.units_or_zeros(start, end)
        if len(found) < end - start:
            raise OffsetOutOfRangeError(topic, queue_id, start + len(found), low, high)
        return found

    def _check_range(self, identity: QueueIdentity, start: int, end: int) -> tuple[int, int]:
        """The queue's bounds; OffsetOutOfRangeError where [start, end) is not within them."""
        low, high = self._queues.bounds(identity.topic, identity.queue_id)
        if start < low or end > high or start > end:
            raise OffsetOutOfRangeError(identity.topic, identity.queue_id, start if start < low else end, low, high)
        return low, high

    def read(
        self,
        topic: str,
        queue_id: int,
        start: int,
        end: int,
        columns: Sequence[str] | None = None,
        tags: str | None = None,
        max_batch_bytes: int = 2 << 20,
        on_missing: str = "error",
    ) -> Iterator[pa.RecordBatch]:
        """Messages [start, end) of a queue as RecordBatches with just `columns`; memory is bounded by a batch.

        `tags` is compared by hash before the log is touched and by name after. A record that is not what its unit
        says raises CorruptRecordError; with on_missing="skip" such rows, and a removed part of the range, are left
        out. Where a record has a CRC of itself, no byte of it is given out before that agrees, whichever the column;
        of one without (4.9 has none) the body's CRC is compared where `body` is asked for, and the rest has none.
        Columns that only say where the record is need no CRC.
        """
        wanted = tuple(columns) if columns is not None else DEFAULT_COLUMNS
        for name in wanted:
            if name not in SOURCE_COLUMNS:
                raise UnknownColumnError(name, SOURCE_COLUMNS)
        if on_missing == "skip":
            low, high = self._queues.bounds(topic, queue_id)
            start, end = max(start, low), min(end, high)
        tag_filter = TagFilter.parse(tags)
        identity = self.identity(topic, queue_id)
        step = 1 << 16
        batch_queue = self._queues.find_batch(topic, queue_id)
        if batch_queue is not None:
            for block in range(start, end, step):
                stop = min(block + step, end)
                self._check_range(identity, block, stop)
                yield from self._unwrapped(
                    identity, batch_queue, block, stop, wanted, tag_filter, max_batch_bytes, on_missing
                )
            return
        for block in range(start, end, step):
            found = self.units(topic, queue_id, block, min(block + step, end), on_missing)
            offsets = np.arange(block, block + len(found))
            there = written(found)
            if on_missing == "skip" and not there.all():
                self._tell_without_unit(identity, offsets[~there])
                found, offsets = found[there], offsets[there]
            keep = ~pre_blank(found)
            if not tag_filter.matches_all:
                codes = found["tags_code"].astype(np.int64)
                keep &= tag_filter.mask_codes(codes) | (codes <= MAX_EXT_ADDRESS)
            if not keep.all():
                found, offsets = found[keep], offsets[keep]
            for rows in chunks(found["msg_size"], max_batch_bytes, _MAX_CHUNK_ROWS):
                yield from self._decode(identity, found[rows], offsets[rows], wanted, tag_filter, on_missing)

    def _unwrapped(
        self,
        identity: QueueIdentity,
        queue: BatchConsumeQueue,
        start: int,
        end: int,
        columns: tuple[str, ...],
        tag_filter: TagFilter,
        max_batch_bytes: int,
        on_missing: str,
    ) -> Iterator[pa.RecordBatch]:
        """Messages [start, end) of a BatchCQ topic's queue, those of inner batches each as a row."""
        units = queue.units_holding(start, end)
        bases = units["msg_base_offset"].astype(np.int64)
        if on_missing != "skip" and len(_record_of_message(units, start, end)) < end - start:
            raise CorruptRecordError(identity.topic, int(units["phy_offset"][0]) if len(units) else 0, _GAP)
        more = tuple(dict.fromkeys([*columns, "queueOffset", "tags"]))
        needed = tuple(dict.fromkeys([*more, *RECORD_COLUMNS]))
        plain = _plain_units(units)
        for rows in chunks(plain["msg_size"], max_batch_bytes, _MAX_CHUNK_ROWS):
            for records in self._decode(identity, plain[rows], bases[rows], needed, TagFilter.parse(None), on_missing):
                for part in self._unwrap(identity, records, more, on_missing):
                    offsets = np.asarray(part.column(part.schema.get_field_index("queueOffset")))
                    keep = (offsets >= start) & (offsets < end)
                    if not tag_filter.matches_all:
                        keep &= tag_filter.mask_tags(part.column(part.schema.get_field_index("tags")))
                    if keep.any():
                        wanted = part.select(columns)
                        yield wanted if keep.all() else wanted.take(_indices(np.flatnonzero(keep)))

    def _unwrap(
        self, identity: QueueIdentity, records: pa.RecordBatch, columns: tuple[str, ...], on_missing: str
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield unwrap(records, columns)
        except NoBatchBodyError as error:
            offset = records.column("queueOffset")[error.row].as_py()
            why = f"{error} (topic {identity.topic}, queue {identity.queue_id}, queue offset {offset})"
            if on_missing != "skip":
                raise CorruptRecordError(identity.topic, offset, why) from error
            events.tell(events.SKIPPED, self._queues.paths.root, identity.topic, f"left out: {why}", offset=offset)
            yield from self._unwrap(identity, records.slice(0, error.row), columns, on_missing)
            yield from self._unwrap(identity, records.slice(error.row + 1), columns, on_missing)

    def _decode(
        self,
        identity: QueueIdentity,
        units: Units,
        offsets: npt.NDArray[np.int64],
        columns: tuple[str, ...],
        tag_filter: TagFilter,
        on_missing: str,
    ) -> Iterator[pa.RecordBatch]:
        phy_offsets = units["phy_offset"].astype(np.int64)
        in_doubt = not (tag_filter.matches_all and _OF_THE_PLACE.issuperset(columns))
        covered = 0
        for rows, mapped in self._log.by_file(phy_offsets):
            if rows.start > covered and on_missing != "skip":
                break
            covered += rows.stop - rows.start
            found, queue_offsets, places = units[rows], offsets[rows], phy_offsets[rows]
            try:
                records = self._log.columns(mapped, found)
            except UnreadableError as error:
                if on_missing != "skip":
                    raise
                good = self._log.readable(mapped, found)
                bad = np.setdiff1d(np.arange(len(found)), good)
                self._tell_skipped(mapped, identity, int(queue_offsets[bad[0]]), dict.fromkeys(bad.tolist(), error.why))
                if len(good) == 0:
                    continue
                found, queue_offsets, places = found[good], queue_offsets[good], places[good]
                records = self._log.columns(mapped, found)
            except StoreAccessError:
                if on_missing == "skip" and mapped.end_offset <= self._log.min_phy_offset:
                    continue
                self._refuse_removed(identity, int(offsets[rows.start]), mapped.file_from_offset)
                raise
            records.check_place(places, queue_offsets, identity)
            faults = self._log.faults(records, mapped, bodies="body" in columns) if in_doubt else records.faults
            if faults:
                faults |= dict.fromkeys(np.flatnonzero(lost(found)).tolist(), _LOST)
                self._leave_out(mapped, identity, queue_offsets, places, on_missing, faults)
                good = np.setdiff1d(np.arange(records.count), list(faults))
                records, queue_offsets, places = records.keep(good), queue_offsets[good], places[good]
                if records.count == 0:
                    continue
            if "body" not in columns or not (records.sys_flag & COMPRESSED_FLAG).any():
                yield from _matching(ColumnBuilder(records, identity, queue_offsets, places), columns, tag_filter)
                continue
            leave_out = partial(self._leave_out, mapped, identity, queue_offsets, places, on_missing)
            for run, bodies in decompressed_runs(records, _MAX_DECOMPRESSED, leave_out):
                some = records.keep(np.array(run))
                builder = ColumnBuilder(some, identity, queue_offsets[run], places[run], bodies)
                yield from _matching(builder, columns, tag_filter)
        if covered < len(units) and on_missing != "skip":
            self._refuse_removed(identity, int(offsets[covered]), int(phy_offsets[covered]))
            raise CorruptRecordError(
                identity.topic, int(phy_offsets[covered]), "a queue unit points at a CommitLog file that is not there"
            )

    def _leave_out(
        self,
        mapped: MappedFile,
        identity: QueueIdentity,
        queue_offsets: npt.NDArray[np.int64],
        places: npt.NDArray[np.int64],
        on_missing: str,
        faults: dict[int, str],
    ) -> None:
        """Tell of rows that cannot be given; CorruptRecordError of the first unless they are to be skipped."""
        row = min(faults)
        if on_missing == "skip":
            self._tell_skipped(mapped, identity, int(queue_offsets[row]), faults)
            return
        where = f"topic {identity.topic}, queue {identity.queue_id}, queue offset {int(queue_offsets[row])}"
        raise CorruptRecordError(mapped.path, int(places[row]), f"{faults[row]} ({where})")

    def _tell_skipped(
        self, mapped: MappedFile, identity: QueueIdentity, queue_offset: int, faults: dict[int, str]
    ) -> None:
        why = f"left out of topic {identity.topic}, queue {identity.queue_id}: {next(iter(faults.values()))}"
        store = mapped.path.parent.parent
        events.tell(events.SKIPPED, store, mapped.path, why, offset=queue_offset, count=len(faults))

    def _tell_without_unit(self, identity: QueueIdentity, offsets: npt.NDArray[np.int64]) -> None:
        directory = self._queues.paths.consume_queue / identity.topic / str(identity.queue_id)
        why = f"left out: {NO_UNIT}; store verify --repair makes them anew"
        events.tell(events.SKIPPED, self._queues.paths.root, directory, why, offset=int(offsets[0]), count=len(offsets))

    def _refuse_removed(self, identity: QueueIdentity, queue_offset: int, phy_offset: int) -> None:
        """Raise OffsetOutOfRangeError where retention took what is at `phy_offset` while it was read."""
        low, high = self._queues.bounds(identity.topic, identity.queue_id)
        if phy_offset < self._log.min_phy_offset:
            raise OffsetOutOfRangeError(identity.topic, identity.queue_id, queue_offset, low, high)

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """As RocketMQ's getMessage: up to `max_count` messages from `offset`, within its transfer limits."""
        return self._getter.get(self.identity(topic, queue_id), offset, max_count, tags)

    def max_phy_offset(self) -> int:
        """End of the log."""
        return self._max_phy_offset()

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None:
        """The message whose record begins at `phy_offset`, None where none does."""
        if not self._log.min_phy_offset <= phy_offset < self.max_phy_offset():
            return None
        try:
            return self._log.message_at(phy_offset)
        except StoreError:
            return None

    def view_message(self, topic: str, msg_id: str) -> MessageExt | None:
        """The message of `topic` with this id: an offset message id, or else a UNIQ_KEY (then the newest); or None."""
        try:
            _, phy_offset = decode_offset_msg_id(msg_id)
        except InvalidMessageIdError:
            phy_offset = -1
        message = self.look_message_by_offset(phy_offset)
        look = self._look_at(topic)
        if message is not None and message.topic == topic and message.msg_id == msg_id.upper():
            return look(phy_offset)
        found = self._index.query(topic, msg_id, 1, 0, _MAX_TIMESTAMP, look)
        return found[0] if found and found[0].uniq_key == msg_id else None

    def query_message(
        self, topic: str, key: str, max_count: int = 32, begin: int = 0, end: int = _MAX_TIMESTAMP
    ) -> list[MessageExt]:
        """Messages of `topic` with `key` among KEYS or as UNIQ_KEY, stored within [begin, end] ms (to the second)."""
        most = min(max_count, self._config.max_msgs_num_batch)
        return self._index.query(topic, key, most, begin, end, self._look_at(topic))

    def _look_at(self, topic: str) -> Callable[[int], MessageExt | None]:
        """As `look_message_by_offset`, without messages of a deleted topic of that name."""
        floor = self._floors.of(topic)
        return lambda phy_offset: self.look_message_by_offset(phy_offset) if phy_offset >= floor else None

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> int:
        """Queue offset by store time; `boundary` names a `TimeBoundary` ("lower", "upper" or "nearest").

        A queue without messages answers with its min offset; StoreConfigError for another boundary. Records that
        cannot be read are passed over, and logged where one of them may have been the answer.
        """
        found = self.search_by_time(topic, queue_id, timestamp_ms, boundary)
        start, stop = found.unreadable
        if start < stop:
            directory = self._queues.paths.consume_queue / topic / str(queue_id)
            why = f"passed over: what was stored by {timestamp_ms} ms cannot be read; see store verify"
            events.tell(events.SKIPPED, self._queues.paths.root, directory, why, offset=start, count=stop - start)
        return found.offset

    def search_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> OffsetByTime:
        """Return the answer of `get_offset_in_queue_by_time`, and which unreadable records are beside it."""
        wanted = TimeBoundary.parse(boundary)
        low, high = self._queues.bounds(topic, queue_id)
        queue, batch_queue = self._queues.find(topic, queue_id), self._queues.find_batch(topic, queue_id)
        if queue is None and batch_queue is None:
            return OffsetByTime(low, (low, low))
        identity = self.identity(topic, queue_id)

        def store_timestamps(start: int, stop: int) -> npt.NDArray[np.int64]:
            offsets = np.arange(start, stop)
            if batch_queue is not None:
                units, offsets = _units_of_messages(batch_queue.units_holding(start, stop), start, stop)
            else:
                assert queue is not None
                units = queue.units_or_zeros(start, stop)
            return self._log.store_timestamps(units, offsets, identity)

        per_file = queue.units_per_file if batch_queue is None and queue is not None else max(high - low, 1)
        return offset_by_time(store_timestamps, low, high, per_file, timestamp_ms, wanted)


def _matching(builder: ColumnBuilder, columns: tuple[str, ...], tag_filter: TagFilter) -> Iterator[pa.RecordBatch]:
    """The rows whose tag matches, where there are any."""
    if tag_filter.matches_all:
        yield builder.batch(columns)
        return
    mask = tag_filter.mask_tags(builder.column("tags"))
    batch = builder.batch(columns)
    if mask.all():
        yield batch
    elif mask.any():
        yield batch.take(_indices(np.flatnonzero(mask)))


def _plain_units(units: Units) -> Units:
    """Units of a BatchCQ topic's queue as plain ones."""
    plain = units_of(units["phy_offset"], units["msg_size"])
    plain["tags_code"] = units["tags_code"]
    return plain


def _record_of_message(units: Units, start: int, end: int) -> npt.NDArray[np.int64]:
    """Which of a BatchCQ topic's units holds each message of [start, end); shorter where some are in none."""
    bases = units["msg_base_offset"].astype(np.int64)
    first, last = np.maximum(bases, start), np.minimum(bases + units["batch_size"], end)
    return np.repeat(np.arange(len(units)), np.maximum(last - first, 0))


def _units_of_messages(holding: Units, start: int, end: int) -> tuple[Units, npt.NDArray[np.int64]]:
    """Return, for each message of [start, end), the plain unit and the queue offset of the record that holds it.

    `holding` are a BatchCQ topic's units in order; messages that none of them holds get zeros.
    """
    units, offsets = np.zeros(end - start, UNIT_DTYPE), np.arange(start, end)
    plain = _plain_units(holding)
    for number, (base, count) in enumerate(holding[["msg_base_offset", "batch_size"]].tolist()):
        first, last = max(base, start) - start, min(base + count, end) - start
        if first < last:
            units[first:last], offsets[first:last] = plain[number], base
    return units, offsets


def _indices(rows: npt.NDArray[np.intp]) -> pa.Array:
    import pyarrow

    from rocketflow_store.columnar.gather import int_array

    return int_array(rows, pyarrow.int64())
