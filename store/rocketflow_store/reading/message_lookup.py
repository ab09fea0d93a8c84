"""Look-ups of messages by their place in the log, by id, by key and by TAGS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.metadata.native.deleted_topics import TopicFloors
from rocketflow_store.model.errors import CorruptRecordError, InvalidMessageIdError, StoreError
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.reading.faults import SkipFaults
from rocketflow_store.reading.record_boundaries import RecordBoundaries
from rocketflow_store.reading.skipped import SkippedMessages
from rocketflow_store.reading.tag_query import TagQueryResult, TagSearch, damaged_entry, tag_coverage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.reading.tag_query import TagQuery
    from rocketflow_store.reading.time_search import TimeSearch
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.index.index_service import IndexService

MAX_TIMESTAMP: Final = (1 << 63) - 1


class MessageLookup:
    """Look-ups of single messages of one store, which ends at `log_end()`."""

    def __init__(
        self,
        log: CommitLogView,
        queues: QueueTable,
        index: IndexService,
        config: StoreConfig,
        log_end: Callable[[], int],
    ) -> None:
        self._log, self._queues, self._index, self._config = log, queues, index, config
        self._log_end = log_end
        self._floors = TopicFloors(queues.paths)
        self.boundaries = RecordBoundaries(log, queues, config.max_message_size)

    def at(self, phy_offset: int) -> ReceivedMessage | None:
        """Return the message whose record begins at `phy_offset`, None if there is none.

        Bytes in a message's body that look like a record do not count: its unit, or the log before it, must prove it.
        """
        if not self._log.min_phy_offset <= phy_offset < self._log_end():
            return None
        try:
            message = self._log.message_at(phy_offset)
        except StoreError:
            return None
        return message if self.boundaries.begins(message) else None

    def by_id(self, topic: str, msg_id: str) -> ReceivedMessage | None:
        """Return the message of `topic` with an offset message id, or else the newest with this UNIQ_KEY."""
        try:
            _, phy_offset = decode_offset_msg_id(msg_id)
        except InvalidMessageIdError:
            phy_offset = -1
        message = self.at(phy_offset)
        look = self._look_up(topic, SkipFaults())
        if message is not None and message.topic == topic and message.offset_message_id == msg_id.upper():
            return look(phy_offset)
        found = self._index.query(topic, msg_id, 1, 0, MAX_TIMESTAMP, look)
        return found[0] if found and found[0].uniq_key == msg_id else None

    def by_key(
        self, topic: str, key: str, max_count: int, begin: int, end: int, faults: ReadFaults, *, late_ms: int = 0
    ) -> list[ReceivedMessage]:
        """Return messages of `topic` with `key` that were stored within [begin, end] ms: see `IndexService.query`."""
        most = min(max_count, self._config.max_msgs_num_batch)

        def damaged(file: Path, number: int, why: str) -> None:
            damaged_entry(faults, self._queues.paths, file, number, why)

        return self._index.query(topic, key, most, begin, end, self._look_up(topic, faults), damaged, late_ms=late_ms)

    def by_tags(self, query: TagQuery, max_count: int, times: TimeSearch, *, unclean: bool) -> TagQueryResult:
        """Return the newest messages that match, oldest first; `unclean`: the last stop was not orderly.

        The index answers for the newest part of the log for which it is complete, the queues for the rest.
        """
        paths, log_end = self._queues.paths, self._log_end()
        most = max(min(max_count, self._config.max_msgs_num_batch), 0)
        look = self._look_up(query.topic, SkipFaults())
        floor = max(self._floors.of(query.topic), self._log.min_phy_offset)
        covered = tag_coverage(paths, self._index, self._log, log_end)
        begins = log_end if unclean else covered.begin_phy_offset
        found = TagQueryResult()
        search = TagSearch(query, floor, look)
        if begins < log_end:
            found = search.by_index(paths, self._index, most, begins)
        if len(found.messages) < most and begins > self._log.min_phy_offset:
            older = search.by_units(self._queues, times, most - len(found.messages), begins)
            found = TagQueryResult(found.messages + older.messages, found.complete and older.complete)
        found.messages.reverse()
        found.complete = found.complete and not unclean
        return found

    def _look_up(self, topic: str, faults: ReadFaults) -> Callable[[int], ReceivedMessage | None]:
        """Look messages up like `at`, without those of a deleted topic of that name, and without misplaced ones."""
        floor = self._floors.of(topic)

        def look(phy_offset: int) -> ReceivedMessage | None:
            if not max(floor, self._log.min_phy_offset) <= phy_offset < self._log_end():
                return None
            try:
                message = self._log.message_at(phy_offset)
            except StoreError as error:
                queue_offset, why = -1, f"the index names a record that cannot be read: {error}"
            else:
                if message.topic != topic or self._is_in_its_place(message):
                    return message
                queue_offset, why = message.queue_offset, "the record names the place of another message"
            if phy_offset >= self._log.min_phy_offset:  # otherwise retention removed it meanwhile
                paths = self._queues.paths
                faults.meet(CorruptRecordError(paths.commit_log, phy_offset, why))
                skipped = [SkippedMessages(queue_offset, 1, phy_offset, why)]
                faults.skipped(skipped, store=paths.root, place=paths.commit_log, offset=phy_offset, why=why)
            return None

        return look

    def _is_in_its_place(self, message: ReceivedMessage) -> bool:
        """Return True unless a unit of the message's queue shows another message in the place that this one claims.

        A message without a unit (its queue is lost, or a transaction is pending) is in its place.
        """
        queue = self._queues.find(message.topic, message.queue_id)
        if queue is None:
            return True
        offset, phy_offset = message.queue_offset, message.physical_offset
        units = queue.units(offset, offset + 1) if queue.first_unit <= offset < queue.end_of_files else None
        if units is not None and len(units):
            place, size = int(units["phy_offset"][0]), int(units["msg_size"][0])
            if place == phy_offset:
                return True
            if place >= self._log.min_phy_offset and self._log.holds(
                place, size, (message.topic, message.queue_id, offset)
            ):
                return False
        return queue.offset_near(phy_offset) is None
