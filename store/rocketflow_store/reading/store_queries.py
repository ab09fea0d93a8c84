"""Reads that a writing store and a read-only reader share: get, by offset, by key, by time, ranges as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.filters.tags import TagFilter
from rocketflow_store.metadata.native.deleted_topics import TopicFloors
from rocketflow_store.model.errors import (
    CorruptRecordError,
    InvalidMessageIdError,
    StoreError,
    UnknownColumnError,
)
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.reading.faults import STRICT, SkipFaults
from rocketflow_store.reading.get_message import MessageGetter
from rocketflow_store.reading.queue_units import queue_units, units_of_messages
from rocketflow_store.reading.range_read import RangeRead, Wanted
from rocketflow_store.reading.record_boundaries import RecordBoundaries
from rocketflow_store.reading.skipped import SkippedMessages
from rocketflow_store.reading.tag_codes import ConfirmedTagCodes
from rocketflow_store.reading.tag_query import (
    TagQuery,
    TagQueryResult,
    damaged_entry,
    tag_coverage,
)
from rocketflow_store.records.arrow.columns import DEFAULT_COLUMNS, SOURCE_COLUMNS
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.offset_by_time import OffsetByTime, TimeBoundary, offset_by_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.model.message import MessageExt
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.get_message import QueueTable
    from rocketflow_store.reading.get_message_result import GetMessageResult
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.index.index_service import IndexService

    Units = npt.NDArray[np.void]

_MAX_TIMESTAMP: Final = (1 << 63) - 1


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
        self._tag_codes: dict[str, ConfirmedTagCodes] = {}
        self._getter = MessageGetter(log, queues, config, max_phy_offset)
        self.boundaries = RecordBoundaries(log, queues, config.max_message_size)

    def identity(self, topic: str, queue_id: int) -> QueueIdentity:
        """Who the records of a queue must say they are."""
        return QueueIdentity(topic, queue_id, self._config.broker_name, exact=not topic.startswith(LMQ_PREFIX))

    def units(self, topic: str, queue_id: int, start: int, end: int, faults: ReadFaults = STRICT) -> Units:
        """Return ConsumeQueue units [start, end): see `queue_units`."""
        return queue_units(self._queues, topic, queue_id, start, end, faults)

    def read(
        self,
        topic: str,
        queue_id: int,
        start: int,
        end: int,
        columns: Sequence[str] | None = None,
        tags: str | None = None,
        max_batch_bytes: int = 2 << 20,
        faults: ReadFaults = STRICT,
    ) -> Iterator[pa.RecordBatch]:
        """Messages [start, end) of a queue as RecordBatches with just `columns`; memory is bounded by a batch.

        `tags` is compared by hash before the log is touched and by name after. A message that cannot be given out
        (its unit is missing, or what stands at its place is another or a damaged record) raises CorruptRecordError, a
        range that is not within the queue's bounds OffsetOutOfRangeError; with `faults=SkipFaults()` such rows, and a
        removed part of the range, are skipped, logged and counted. Where a record has a CRC of itself, no byte of it is
        given out before that agrees, whichever the column; of one without (4.9 has none) the body's CRC is compared
        where `body` is asked for, and the rest has none. Columns that only say where the record is need no CRC.
        """
        names = tuple(columns) if columns is not None else DEFAULT_COLUMNS
        for name in names:
            if name not in SOURCE_COLUMNS:
                raise UnknownColumnError(name, SOURCE_COLUMNS)
        wanted = Wanted(names, TagFilter.parse(tags), max_batch_bytes)
        identity, confirmed = self.identity(topic, queue_id), self._confirmed_codes(topic)
        yield from RangeRead(self._log, self._queues, identity, wanted, confirmed, faults).batches(start, end)

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """As RocketMQ's getMessage: up to `max_count` messages from `offset`, within its transfer limits."""
        return self._getter.get(self.identity(topic, queue_id), offset, max_count, tags, self._confirmed_codes(topic))

    def _confirmed_codes(self, topic: str) -> ConfirmedTagCodes:
        return self._tag_codes.setdefault(topic, ConfirmedTagCodes())

    def max_phy_offset(self) -> int:
        """End of the log."""
        return self._max_phy_offset()

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None:
        """Return the message whose record begins at `phy_offset`, None where none does.

        What looks like a record in the body of another one is none: its unit, or the log before it, has to prove it.
        """
        if not self._log.min_phy_offset <= phy_offset < self.max_phy_offset():
            return None
        try:
            message = self._log.message_at(phy_offset)
        except StoreError:
            return None
        return message if self.boundaries.begins(message) else None

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
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin: int = 0,
        end: int = _MAX_TIMESTAMP,
        faults: ReadFaults | None = None,
    ) -> list[MessageExt]:
        """Return messages of `topic` with `key` among KEYS or as UNIQ_KEY.

        They were stored within [begin, end] ms, to the second. What has the key and cannot be given out (a damaged
        record, or one that names another message's place) is a fault, as is an index that is damaged in a way that may
        hide a message; without `faults` they are skipped and logged.
        """
        most = min(max_count, self._config.max_msgs_num_batch)

        policy = SkipFaults() if faults is None else faults

        def damaged(file: Path, number: int, why: str) -> None:
            damaged_entry(policy, self._queues.paths, file, number, why)

        return self._index.query(topic, key, most, begin, end, self._look_at(topic, policy), damaged)

    def query_by_tags(
        self, topic: str, tags: str, max_count: int = 32, begin: int = 0, end: int = _MAX_TIMESTAMP
    ) -> TagQueryResult:
        """Return the newest messages of `topic` that match a tag expression, stored within [begin, end] ms.

        The index answers for the newest part of the log for which it is complete, the queues for the rest.
        """
        floor = max(self._floors.of(topic), self._log.min_phy_offset)
        query = TagQuery.parse(topic, tags, begin, end, floor, self._look_at(topic))
        most, log_end = max(min(max_count, self._config.max_msgs_num_batch), 0), self.max_phy_offset()
        covered = tag_coverage(self._queues.paths, self._index, self._log, log_end)
        unclean = self._queues.state == "unclean"
        begins = log_end if unclean else covered.begin_phy_offset
        found = query.by_index(self._queues.paths, self._index, most, begins) if begins < log_end else TagQueryResult()
        if len(found.messages) < most and begins > self._log.min_phy_offset:
            older = query.by_units(self, self._queues.queues(topic), most - len(found.messages), begins)
            found = TagQueryResult(found.messages + older.messages, found.complete and older.complete)
        found.messages.reverse()
        found.complete = found.complete and not unclean
        return found

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the (min, max) queue offsets that may be read."""
        return self._queues.bounds(topic, queue_id)

    def _look_at(self, topic: str, faults: ReadFaults | None = None) -> Callable[[int], MessageExt | None]:
        """As `look_message_by_offset`, without messages of a deleted topic of that name, and without misplaced ones."""
        floor, policy = self._floors.of(topic), SkipFaults() if faults is None else faults

        def look(phy_offset: int) -> MessageExt | None:
            if not max(floor, self._log.min_phy_offset) <= phy_offset < self.max_phy_offset():
                return None
            try:
                message = self._log.message_at(phy_offset)
            except StoreError as error:
                queue_offset, why = -1, f"the index names a record that cannot be read: {error}"
            else:
                if message.topic != topic or self._is_in_its_place(message):
                    return message
                queue_offset, why = message.queue_offset, "the record names the place of another message"
            if phy_offset >= self._log.min_phy_offset:  # else retention took it meanwhile
                paths = self._queues.paths
                policy.meet(CorruptRecordError(paths.commit_log, phy_offset, why))
                skipped = [SkippedMessages(queue_offset, 1, phy_offset, why)]
                policy.skipped(skipped, store=paths.root, place=paths.commit_log, offset=phy_offset, why=why)
            return None

        return look

    def _is_in_its_place(self, message: MessageExt) -> bool:
        """Whether no unit of the message's queue says that its record is another message than it says.

        A message that has no unit at all (its queue is lost, or a transaction decides about it) is in its place.
        """
        queue = self._queues.find(message.topic, message.queue_id)
        if queue is None:
            return True
        offset, phy_offset = message.queue_offset, message.phy_offset
        units = queue.units(offset, offset + 1) if queue.first_unit <= offset < queue.behind_files else None
        if units is not None and len(units):
            told, size = int(units["phy_offset"][0]), int(units["msg_size"][0])
            if told == phy_offset:
                return True
            if told >= self._log.min_phy_offset and self._log.holds(
                told, size, (message.topic, message.queue_id, offset)
            ):
                return False
        return queue.offset_near(phy_offset) is None

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
                units, offsets = units_of_messages(batch_queue.units_holding(start, stop), start, stop)
            else:
                assert queue is not None
                units = queue.units_or_zeros(start, stop)
            return self._log.store_timestamps(units, offsets, identity)

        per_file = queue.units_per_file if batch_queue is None and queue is not None else max(high - low, 1)
        return offset_by_time(store_timestamps, low, high, per_file, timestamp_ms, wanted)
