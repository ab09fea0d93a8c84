"""The way of a message into the log: checks, queue, offset, bytes, append, hand-over to dispatch, acknowledgement.

Puts are serialised by the put lock; syncs are shared (`flush.GroupFlush`).
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rocketflow_store.dispatch import DispatchRow, deliver_time
from rocketflow_store.errors import (
    FileAllocationTimeoutError,
    MessageRejectedError,
    StoreAccessError,
    StoreError,
    StoreFencedError,
    StoreFullError,
    StorePoolDeficientError,
)
from rocketflow_store.format.message_id import offset_msg_id
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import encode_record, record_size
from rocketflow_store.java_compat import string_hash
from rocketflow_store.message import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    SCHEDULE_TOPIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from rocketflow_store.message_encoder import MessageEncoder
from rocketflow_store.results import PutMessageResult
from rocketflow_store.statistics import SLOW_PUT_NS
from rocketflow_store.status import PutMessageStatus
from rocketflow_store.topic_names import is_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocketflow_store.confirmed_dispatch import ConfirmedDispatch
    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.message import Message
    from rocketflow_store.statistics import StoreStatistics
    from rocketflow_store.store_opening import StoreParts


class PutPath:
    """Puts single messages; `lock` is held by whoever appends to the log."""

    def __init__(
        self,
        parts: StoreParts,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
        is_disk_full: Callable[[], bool],
        appended: Callable[[], None] | None,
    ) -> None:
        """`appended` is told of puts that nobody waits for."""
        self._parts, self._dispatch, self._statistics = parts, dispatch, statistics
        self._config, self._commit_log, self._flush = parts.config, parts.commit_log, parts.flush
        self._offsets, self._topics = parts.offsets, parts.topics
        self._is_disk_full = is_disk_full
        self.appended = appended
        self._encoder = MessageEncoder(parts.config)
        self.lock = threading.RLock()
        self.next_queue: dict[str, int] = {}
        """Which queue of a topic is next in turn."""
        self.store_timestamp = parts.store_timestamp
        """That of the newest record (ms)."""

    def put_messages(self, messages: Iterable[Message]) -> list[PutMessageResult]:
        """Store messages in order with one flush for all; each has its own outcome."""
        began_ns = time.perf_counter_ns()
        results = self._acknowledge([self._put_one(message) for message in messages])
        elapsed_ns = time.perf_counter_ns() - began_ns
        if elapsed_ns >= SLOW_PUT_NS:
            self._statistics.slow_put(elapsed_ns, len(results))
        return results

    def put_record(self, fields: RecordFields) -> PutMessageResult:
        """Store a record whose fields are given byte for byte."""
        if not is_directory_name(fields.topic.decode("utf-8", "replace")):
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"topic {fields.topic!r:.80} is no name")
        with self.lock:
            result = self._append_fields(fields, decode_properties(fields.properties), self.tick())
        return self._acknowledge([result])[0]

    def _acknowledge(self, results: list[PutMessageResult]) -> list[PutMessageResult]:
        """Wait for the flush that the mode promises, then let readers see the messages."""
        if not any(result.stored for result in results):
            return results
        if self._parts.sync_flush:
            end = self._commit_log.wrote_offset
            try:
                in_time = self._flush.flush_to(end, self._config.sync_flush_timeout / 1000)
            except StoreFencedError as error:
                self._statistics.late(results)
                return [_with_status(one, PutMessageStatus.FLUSH_DISK_TIMEOUT, str(error)) for one in results]
            if not in_time:
                self._statistics.late(results)
                late = "the sync took longer than syncFlushTimeout; the message may be stored"
                return [_with_status(one, PutMessageStatus.FLUSH_DISK_TIMEOUT, late) for one in results]
        elif self.appended is not None:
            self.appended()
        try:
            self._dispatch.follow()
        except (StoreError, MemoryError) as error:
            self._statistics.late(results)
            why = f"stored, but nobody sees it yet ({error}); it will be seen when that is over"
            return [_with_status(one, PutMessageStatus.FLUSH_DISK_TIMEOUT, why) for one in results]
        return results

    def check_writable(self) -> None:
        """Raise where a sync, the last commit or the last dispatch failed, or the disk is too full."""
        self._flush.check()
        if self._dispatch.failure is not None:
            self._dispatch.follow()
        if self._commit_log.commit_error is not None:
            raise self._commit_log.commit_error
        if self._is_disk_full():
            limit = self._config.disk_space_warning_level_ratio
            raise StoreFullError(
                self._parts.paths.root, f"the disk is used beyond diskSpaceWarningLevelRatio ({limit} %)"
            )

    def tick(self) -> int:
        """The store time of the next record: now, but never less than that of the one before."""
        self.store_timestamp = max(self.store_timestamp, self._config.clock.now_ms())
        return self.store_timestamp

    def _put_one(self, message: Message) -> PutMessageResult:
        statistics = self._statistics
        if statistics.lock_began_ms and statistics.page_cache_busy(
            self._config.clock.now_ms(), self._config.os_page_cache_busy_time_out_mills
        ):
            return self._refuse(message.topic, PutMessageStatus.OS_PAGE_CACHE_BUSY, "another put does not come back")
        with self.lock:
            try:
                if self._is_held_up():
                    self.check_writable()
                now_ms = statistics.lock_began_ms = self.tick()
                queue_id = self._choose_queue(message)
                fields, properties = self._encoder.encode(message, queue_id, now_ms)
                return self._append_fields(fields, properties, now_ms)
            except MessageRejectedError as error:
                return self._refuse(message.topic, error.status, error.why)
            except (FileAllocationTimeoutError, StorePoolDeficientError) as error:
                return self._refuse(message.topic, PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
            except (StoreFencedError, StoreFullError, StoreAccessError, MemoryError) as error:
                if isinstance(error, StoreFencedError):
                    self._flush.fence = error
                return self._refuse(
                    message.topic, PutMessageStatus.SERVICE_NOT_AVAILABLE, str(error) or "out of memory"
                )
            finally:
                statistics.lock_began_ms = 0

    def _is_held_up(self) -> bool:
        return (
            self._flush.fence is not None
            or self._commit_log.commit_error is not None
            or self._dispatch.failure is not None
            or self._is_disk_full()
        )

    def _refuse(self, topic: str, status: PutMessageStatus, why: str) -> PutMessageResult:
        self._statistics.refused(status)
        return PutMessageResult(status, topic, -1, -1, -1, "", -1, why)

    def _choose_queue(self, message: Message) -> int:
        if message.queue_id is not None:
            if message.queue_id >= 0:
                self._topics.have_queue(message.topic, message.queue_id)
            return message.queue_id
        queues = self._topics.queue_count(message.topic)
        if message.sharding_key is not None:
            return abs(string_hash(message.sharding_key)) % queues
        chosen = self.next_queue.get(message.topic, 0) % queues
        self.next_queue[message.topic] = chosen + 1
        return chosen

    def _append_fields(self, fields: RecordFields, properties: dict[str, str], now_ms: int) -> PutMessageResult:
        topic = fields.topic.decode()
        kind = fields.sys_flag & TRANSACTION_MASK
        queued = kind in (0, TRANSACTION_COMMIT)
        queue_offset = self._offsets.next(topic, fields.queue_id) if queued else 0
        property_crc = self._config.enabled_append_prop_crc
        size = record_size(fields, property_crc)
        if size > self._config.max_message_size + 65_536 or size + 8 > self._config.mapped_file_size_commit_log:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"record of {size} bytes is too large")
        phy_offset = self._commit_log.place_one(size)
        record = encode_record(fields, phy_offset, queue_offset, now_ms, property_crc)
        assert len(record) == size
        row = self.row(fields, properties, phy_offset, size, queue_offset, now_ms)
        msg_id = offset_msg_id(self._config.store_host, phy_offset)
        result = PutMessageResult(
            PutMessageStatus.PUT_OK, topic, fields.queue_id, queue_offset, phy_offset, msg_id, now_ms
        )
        self._commit_log.append(record, phy_offset)
        try:  # nothing below allocates much, or waits for anything
            if queued:
                self._offsets.advance(topic, fields.queue_id)
            self._commit_log.publish(phy_offset + size)
            self._dispatch.add(phy_offset + size, row)
        except BaseException as error:  # log, offsets and dispatch may disagree now
            self._flush.fence = StoreFencedError(self._parts.paths.root, f"interrupted while publishing: {error!r}")
            raise
        self._statistics.put_times += 1
        return result

    def row(
        self,
        fields: RecordFields,
        properties: dict[str, str],
        phy_offset: int,
        size: int,
        queue_offset: int,
        now_ms: int,
    ) -> DispatchRow:
        """What dispatch needs of a record that was just appended."""
        topic = fields.topic.decode()
        kind = fields.sys_flag & TRANSACTION_MASK
        tags = properties.get(PROPERTY_TAGS, "")
        tags_code = string_hash(tags) if tags else 0
        if topic == SCHEDULE_TOPIC:
            tags_code = deliver_time(properties.get(PROPERTY_DELAY), now_ms, self._config.delay_levels_ms, tags_code)
        return DispatchRow(
            topic,
            fields.queue_id if kind in (0, TRANSACTION_COMMIT) else -1,
            queue_offset,
            phy_offset,
            size,
            tags_code,
            now_ms,
            properties.get(PROPERTY_UNIQ_KEY, ""),
            properties.get(PROPERTY_KEYS, ""),
            kind != TRANSACTION_ROLLBACK,
        )


def _with_status(result: PutMessageResult, status: PutMessageStatus, why: str) -> PutMessageResult:
    if not result.stored:
        return result
    return PutMessageResult(
        status,
        result.topic,
        result.queue_id,
        result.queue_offset,
        result.physical_offset,
        result.msg_id,
        result.store_timestamp,
        why,
    )
