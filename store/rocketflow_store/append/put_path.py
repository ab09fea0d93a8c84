"""The way of a message into the log: checks, queue, offset, bytes, append, hand-over to dispatch, acknowledgement.

Puts are serialised by the put lock; syncs are shared (`flush.GroupFlush`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from rocketflow_store.append.assigned_properties import NOTHING_ASSIGNED, Assigned, AssignedProperties
from rocketflow_store.append.put_lock import PutLock, WaitingPut
from rocketflow_store.append.record_run import MAX_RUN_BYTES, MAX_RUN_MESSAGES, RecordRun
from rocketflow_store.format.batch_body import entry_positions
from rocketflow_store.format.light_queue_properties import LMQ_QUEUE_ID, lmq_units
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import RecordFields, encode_record, record_size
from rocketflow_store.model.errors import (
    FileAllocationTimeoutError,
    MessageRejectedError,
    StoreAccessError,
    StoreClosedError,
    StoreError,
    StoreFencedError,
    StoreFullError,
    StorePoolDeficientError,
)
from rocketflow_store.model.java_compat import string_hash
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.message_id import encode_host, offset_msg_id
from rocketflow_store.model.property_names import PROPERTY_DELAY, PROPERTY_KEYS, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import TRANSACTION_COMMIT, TRANSACTION_MASK, TRANSACTION_ROLLBACK
from rocketflow_store.model.topic_names import MAX_QUEUE_NUMS, SCHEDULE_TOPIC
from rocketflow_store.records.arrow.queue_turns import QueueTurns
from rocketflow_store.records.decoding.batch_entries import entry_positions_of
from rocketflow_store.records.decoding.dispatch_rows import DispatchRow, deliver_time
from rocketflow_store.records.encoding.batch_records import encode_batches
from rocketflow_store.records.encoding.delayed_placement import TimerCongestion
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from rocketflow_store.records.encoding.message_ids import offset_msg_ids
from rocketflow_store.records.encoding.relocate import relocate
from rocketflow_store.telemetry import events
from rocketflow_store.telemetry.statistics import SLOW_PUT_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.records.encoding.batch_records import CheckedBatch
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch


Positions: TypeAlias = "Sequence[int] | npt.NDArray[np.int64]"
"""Where the entries of a batch body begin."""

PutRequest: TypeAlias = Message | MessageBatch | RecordFields
"""What can be put: a message, a client's batch, or a record whose fields are given byte for byte."""

Outcomes: TypeAlias = list[PutMessageResult | Exception]
"""What came of requests: an exception where one made no sense."""

_MANY_MESSAGES: Final = 64
"""From so many messages in batches on columns are made of them: that takes as long for a few as for these."""
_MANY_BYTES: Final = 16 << 10
"""Bodies of batches from which on their entries are found together."""
_BUSY: Final = "another put does not come back"
_INTERRUPTED: Final = "the thread that appended it with others was interrupted; the message may be stored"
LATE: Final = "the sync took longer than syncFlushTimeout; the message may be stored"
_NOT_YET: Final = PutMessageResult(PutMessageStatus.UNKNOWN_ERROR, "", -1, -1, -1, "", -1)


class PutPath:
    """Puts messages and batches, in runs; `lock` is held by whoever appends to the log."""

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
        self._refusing = False
        self.appended = appended
        self._encoder = MessageEncoder(parts.config)
        self.assigned = AssignedProperties(parts.config, parts.side_queues.is_batch_cq, parts.queues)
        self._delay_levels_ms, self._property_crc = parts.config.delay_levels_ms, parts.config.append_prop_crc
        self._is_batch_cq = parts.side_queues.is_batch_cq
        self._store_host = encode_host(parts.config.store_host)
        self.lock = PutLock()
        self._fence, self._sync_flush = parts.fence, parts.sync_flush
        self._timeout_s = parts.config.sync_flush_timeout / 1000
        self._closed = False
        self.next_queue = QueueTurns(self._messages_of)
        """Which queue of a topic is next in turn."""
        self.store_timestamp = parts.least_timestamp
        """That of the newest record (ms), or of one that is gone."""

    def count_timers_by(self, waiting_at: Callable[[int], int] | None) -> None:
        """Refuse timer messages of a tick (ms) that has too many by this count; None ends that."""
        most = self._config.timer_congest_num_each_slot
        self._encoder.timer_congestion = None if waiting_at is None else TimerCongestion(waiting_at, most)

    def put(self, requests: Sequence[PutRequest]) -> list[PutMessageResult]:
        """Store requests in order with one flush for all; each has its own outcome."""
        began_ns = time.perf_counter_ns()
        if self._is_page_cache_busy():
            outcomes = self._refuse_all(requests, PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        elif self.lock.acquire_now():
            try:
                outcomes = self._append(requests)
                end = self._commit_log.wrote_offset
            finally:
                self.lock.release()
            outcomes = self._acknowledge(outcomes, end)
        else:
            outcomes = self._put_together(WaitingPut(requests))
        elapsed_ns = time.perf_counter_ns() - began_ns
        if elapsed_ns >= SLOW_PUT_NS:
            self._statistics.slow_put(elapsed_ns, len(outcomes))
        for outcome in outcomes:
            if not isinstance(outcome, PutMessageResult):
                raise outcome
        return outcomes  # type: ignore[return-value]

    def append(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Append requests in order; what came of each.

        What is refused is a result that says so; nothing is acknowledged yet.
        """
        if self._is_page_cache_busy():
            return self._refuse_all(requests, PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)
        with self.lock:
            return self._append(requests)

    def close(self) -> None:
        """Whoever puts from now on gets StoreClosedError."""
        with self.lock:
            self._closed = True

    def forsake(self) -> None:
        """As `close`, in a forked process, where a thread that is not here may hold the lock."""
        self.lock = PutLock()
        self._closed = True

    def _put_together(self, put: WaitingPut) -> Outcomes:
        """As `put`, where another thread appends just now: with others that come meanwhile."""
        timeout_s = self._timeout_s if self._sync_flush else -1
        taken = self.lock.queue_up(put, timeout_s)
        if not taken:
            return self._taken_along(put, timeout_s)
        interrupted = _INTERRUPTED
        try:
            requests = [request for one in taken for request in one.requests]
            try:
                outcomes = self._append(requests)
                end = self._commit_log.wrote_offset
            except Exception as error:  # of all alike: the store was closed
                outcomes, end = [error] * len(requests), 0
            finally:
                self.lock.release()
            _share(outcomes, taken)
            _share(self._acknowledge(outcomes, end), taken)
            interrupted = ""
        finally:
            for one in taken[1:]:
                if interrupted:
                    one.outcomes = self._late(one.outcomes, interrupted)
                one.done = True
                one.wake()
        return put.outcomes

    def _taken_along(self, put: WaitingPut, timeout_s: float) -> Outcomes:
        """What came of a put that another thread appends and acknowledges."""
        while not put.done:
            left_s = timeout_s
            if put.outcomes and timeout_s >= 0:
                left_s = put.appended_s + timeout_s - time.monotonic()
                if left_s <= 0:
                    return self._late(put.outcomes, LATE)
            put.sleep(left_s)
        if not put.outcomes:
            return self._refuse_all(put.requests, PutMessageStatus.UNKNOWN_ERROR, _INTERRUPTED)
        return put.outcomes

    def _append(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Append requests in runs; under the put lock."""
        if len(requests) == 1:
            return self._append_run(requests)
        outcomes: Outcomes = []
        start, size = 0, 0
        for number, request in enumerate(requests):
            more = body_size(request)
            size += more
            if number - start == MAX_RUN_MESSAGES or (size > MAX_RUN_BYTES and number > start):
                outcomes += self._append_run(requests[start:number])
                start, size = number, more
        return outcomes + self._append_run(requests[start:] if start else requests)

    def _acknowledge(self, outcomes: Outcomes, end: int) -> Outcomes:
        """Wait for the flush that the mode promises of the log up to `end`, then let readers see the messages."""
        for one in outcomes:
            if isinstance(one, PutMessageResult) and one.physical_offset >= 0:
                break
        else:
            return outcomes
        if self._sync_flush:
            try:
                in_time = self._flush.flush_to(end, self._timeout_s)
            except StoreFencedError as error:
                return self._late(outcomes, str(error))
            if not in_time:
                return self._late(outcomes, LATE)
        elif self.appended is not None:
            self.appended()
        try:
            self._dispatch.follow(end)
        except (StoreError, MemoryError) as error:
            return self._late(outcomes, unseen_because(error))
        return outcomes

    def _late(self, outcomes: Outcomes, why: str) -> Outcomes:
        """What was stored may not be there for good: its outcomes say so."""
        late = [
            one._replace(status=PutMessageStatus.FLUSH_DISK_TIMEOUT, why=why)
            if isinstance(one, PutMessageResult) and one.stored
            else one
            for one in outcomes
        ]
        self._statistics.late([one for one in late if isinstance(one, PutMessageResult)])
        return late

    def _is_page_cache_busy(self) -> bool:
        return self._statistics.lock_began_ms > 0 and self._statistics.page_cache_busy(
            self._config.clock.now_ms(), self._config.os_page_cache_busy_time_out_mills
        )

    def check_writable(self) -> None:
        """Raise where a sync, the last commit or the last dispatch failed, the disk is too full, or after `close`."""
        if self._closed:
            raise StoreClosedError(self._parts.paths.root)
        self._fence.check()
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

    def _append_run(self, requests: Sequence[PutRequest]) -> Outcomes:
        statistics = self._statistics
        try:
            if self._is_held_up():
                self.check_writable()
            before = self.store_timestamp
            now_ms = statistics.lock_began_ms = self.tick()
            entries = _entries(requests) if MessageBatch in map(type, requests) else {}
            many = bool(entries) and sum(map(len, entries.values())) >= _MANY_MESSAGES
            run = RecordRun(self._commit_log, self._offsets, by_columns=many)
            outcomes = self._take(run, requests, entries, now_ms)
            if run.count:
                self._write(run)
            else:
                self.store_timestamp = before  # all were refused: no record has this time
            self._refusing = False
            return outcomes
        except (FileAllocationTimeoutError, StorePoolDeficientError) as error:
            return self._refuse_all(requests, PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        except (StoreFencedError, StoreFullError, StoreAccessError, MemoryError) as error:
            if isinstance(error, StoreFencedError):
                self._fence.close(error)
            why = str(error) or "out of memory"
            events.tell(events.REFUSED, self._parts.paths.root, "put", why, quietly=self._refusing)
            self._refusing = True
            return self._refuse_all(requests, PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        finally:
            statistics.lock_began_ms = 0

    def _write(self, run: RecordRun) -> None:
        rows = run.dispatched(self._delay_levels_ms)
        run.write()
        try:  # nothing below allocates much, or waits for anything
            run.publish()
            self._dispatch.add(run.end, rows)
        except BaseException as error:
            self.fence_half_published(error)
            raise
        self._statistics.put_times += run.count

    def fence_half_published(self, error: BaseException) -> None:
        """Log, offsets and dispatch may disagree: nothing may be put any more."""
        self._fence.close_for(f"interrupted while publishing: {error!r}")

    def _is_held_up(self) -> bool:
        return (
            self._fence.error is not None
            or self._commit_log.commit_error is not None
            or self._dispatch.failure is not None
            or self._closed
            or self._is_disk_full()
        )

    def _take(
        self, run: RecordRun, requests: Sequence[PutRequest], entries: dict[int, Positions], now_ms: int
    ) -> Outcomes:
        """Give each request its place in the run. Batches that follow each other become records together."""
        outcomes: Outcomes = []
        batches: list[tuple[int, CheckedBatch]] = []
        for at, request in enumerate(requests):
            try:
                if isinstance(request, MessageBatch) and not self._is_batch_cq(request.topic):
                    queue_id = self._choose_queue(request)
                    batch = self._encoder.check_batch(request, queue_id, now_ms, entries.get(at))
                    if run.by_columns:
                        batches.append((len(outcomes), batch))
                        outcomes.append(_NOT_YET)
                    else:
                        outcomes.append(self._take_batch(run, batch, now_ms))
                    continue
                if batches:
                    self._take_batches(run, batches, outcomes, now_ms)
                if isinstance(request, RecordFields):
                    fields, properties, given = request, decode_properties(request.properties), True
                else:
                    message = request if isinstance(request, Message) else self._encoder.inner_batch(request)
                    queue_id = self._choose_queue(message)
                    fields, properties = self._encoder.encode(message, queue_id, now_ms)
                    given = False
                outcomes.append(self._take_fields(run, fields, properties, now_ms, given=given))
            except MessageRejectedError as error:
                outcomes.append(self.refuse(request, error.status, error.why))
            except (StoreError, MemoryError):
                raise
            except Exception as error:  # what a caller gave makes no sense: a body that is text, a topic that is None
                why = f"is no message that can be stored: {error!r}"
                outcomes.append(self.refuse(request, PutMessageStatus.MESSAGE_ILLEGAL, why))
        if batches:
            self._take_batches(run, batches, outcomes, now_ms)
        return outcomes

    def _take_batches(
        self,
        run: RecordRun,
        batches: list[tuple[int, CheckedBatch]],
        outcomes: Outcomes,
        now_ms: int,
    ) -> None:
        property_crc = self._property_crc
        records = encode_batches([batch for _, batch in batches], self._store_host, property_crc=property_crc)
        counts = records.counts
        within = np.cumsum(records.sizes) - records.sizes
        places = [run.place(size) for size in np.add.reduceat(records.sizes, records.firsts).tolist()]
        phy_offsets = within + np.repeat(np.array(places) - within[records.firsts], counts)
        offsets = []
        for (_, batch), count in zip(batches, counts.tolist(), strict=True):
            offsets.append(run.next_offset(batch.topic, batch.queue_id))
            run.take_offsets(batch.topic, batch.queue_id, count)
        queue_offsets = np.arange(len(within)) + np.repeat(np.array(offsets) - records.firsts, counts)
        msg_ids = offset_msg_ids(self._config.store_host, phy_offsets, counts)
        for (number, batch), count, queue_offset, phy_offset, ids in zip(
            batches, counts.tolist(), offsets, places, msg_ids, strict=True
        ):
            outcomes[number] = PutMessageResult(
                PutMessageStatus.PUT_OK,
                batch.topic,
                batch.queue_id,
                queue_offset,
                phy_offset,
                ids,
                now_ms,
                message_count=count,
            )
        relocate(
            records.octets,
            records.starts,
            records.sizes,
            phy_offsets,
            queue_offsets,
            now_ms,
            property_crc=property_crc,
        )
        run.add_many(records.octets.data, phy_offsets.tolist(), records.sizes.tolist())
        batches.clear()

    def _take_batch(self, run: RecordRun, batch: CheckedBatch, now_ms: int) -> PutMessageResult:
        """As `_take_batches`, one message after the other: of few that is done before columns are made of them."""
        property_crc = self._property_crc
        messages = self._encoder.batch_fields(batch)
        sizes = [record_size(fields, property_crc) for fields in messages]
        begin = phy_offset = run.where(sum(sizes))
        first = run.next_offset(batch.topic, batch.queue_id)
        records, rows, msg_ids = [], [], []
        for queue_offset, (fields, size) in enumerate(zip(messages, sizes, strict=True), first):
            records.append((encode_record(fields, phy_offset, queue_offset, now_ms, property_crc), phy_offset))
            properties = decode_properties(fields.properties)
            row = self.row(fields, properties, phy_offset, size, queue_offset, now_ms)
            rows.append(row._replace(lmq=lmq_units(properties)))
            msg_ids.append(offset_msg_id(self._config.store_host, phy_offset))
            phy_offset += size
        run.rows += rows
        for record, at in records:
            run.add(record, at)
        run.take_offsets(batch.topic, batch.queue_id, len(messages))
        return PutMessageResult(
            PutMessageStatus.PUT_OK,
            batch.topic,
            batch.queue_id,
            first,
            begin,
            ",".join(msg_ids),
            now_ms,
            message_count=len(messages),
        )

    def _refuse_all(self, requests: Sequence[PutRequest], status: PutMessageStatus, why: str) -> Outcomes:
        return [self.refuse(request, status, why) for request in requests]

    def refuse(self, request: PutRequest, status: PutMessageStatus, why: str) -> PutMessageResult:
        """The result of a request of which nothing is stored; it is counted."""
        self._statistics.refused(status)
        given: object = getattr(request, "topic", "")
        topic = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given or "")
        return PutMessageResult(status, topic, -1, -1, -1, "", -1, why)

    def _choose_queue(self, message: Message | MessageBatch) -> int:
        if message.queue_id is not None:
            if message.queue_id >= 0:
                if message.queue_id >= MAX_QUEUE_NUMS:
                    why = f"queue id {message.queue_id}: a topic has at most {MAX_QUEUE_NUMS} queues"
                    raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
                self._topics.have_queue(message.topic, message.queue_id)
            return message.queue_id
        queues = self._topics.queue_count(message.topic)
        if isinstance(message, Message) and message.sharding_key is not None:
            return abs(string_hash(message.sharding_key)) % queues
        chosen = self.next_queue[message.topic] % queues
        self.next_queue[message.topic] = chosen + 1
        return chosen

    def _messages_of(self, topic: str) -> int:
        """Return how many messages the topic had when the store was opened: one more a put moves the turn by one."""
        return self._offsets.messages_before(topic, self._topics.queue_count(topic))

    def _take_fields(
        self, run: RecordRun, fields: RecordFields, properties: dict[str, str], now_ms: int, *, given: bool
    ) -> PutMessageResult:
        topic, queue_id = fields.topic.decode(), fields.queue_id
        queued = fields.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT)
        queue_offset = run.next_offset(topic, queue_id) if queued else 0
        assigned = self.assigned.assign(run, fields, properties, queue_offset, given=given)
        property_crc = self._property_crc
        size = record_size(fields, property_crc)
        limit = self._config.max_message_size + (0 if assigned.lmq else 65_536)
        if size > limit or size + 8 > self._config.mapped_file_size_commit_log:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"record of {size} bytes is too large")
        phy_offset = run.where(size)
        record = encode_record(fields, phy_offset, queue_offset, now_ms, property_crc)
        if not run.by_columns:  # whatever may fail comes before the run has anything of the record
            run.rows.append(self.row(fields, properties, phy_offset, size, queue_offset, now_ms, assigned))
        run.add(record, phy_offset)
        if queued:
            run.take_offsets(topic, queue_id, assigned.batch_num)
        for name, _ in assigned.lmq:
            run.take_offsets(name, LMQ_QUEUE_ID, 1)
        return PutMessageResult(
            PutMessageStatus.PUT_OK,
            topic,
            queue_id,
            queue_offset,
            phy_offset,
            offset_msg_id(self._config.store_host, phy_offset),
            now_ms,
            message_count=assigned.batch_num,
        )

    def row(
        self,
        fields: RecordFields,
        properties: dict[str, str],
        phy_offset: int,
        size: int,
        queue_offset: int,
        now_ms: int,
        assigned: Assigned = NOTHING_ASSIGNED,
    ) -> DispatchRow:
        """What dispatch needs of a record that was just appended."""
        topic = fields.topic.decode()
        kind = fields.sys_flag & TRANSACTION_MASK
        tags = properties.get(PROPERTY_TAGS, "")
        tags_code = string_hash(tags) if tags else 0
        if topic == SCHEDULE_TOPIC:
            tags_code = deliver_time(properties.get(PROPERTY_DELAY), now_ms, self._delay_levels_ms, tags_code)
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
            tags,
            kind != TRANSACTION_ROLLBACK,
            assigned.batch_num,
            assigned.lmq,
        )


def body_size(request: PutRequest) -> int:
    """0 for what is no message, or has no body: the request is refused when its turn comes."""
    try:
        return len(request.body or b"")
    except (TypeError, AttributeError):
        return 0


def _entries(requests: Sequence[PutRequest]) -> dict[int, Positions]:
    """Where the entries of the batches among the requests begin, by their place; without those that are no batches."""
    bodies = {at: request.body for at, request in enumerate(requests) if type(request) is MessageBatch}
    try:
        if sum(map(len, bodies.values())) > _MANY_BYTES:
            together = entry_positions_of([*bodies.values()])
            if together is not None:
                return dict(zip(bodies, together, strict=True))
    except TypeError:  # one is no bytes
        pass
    found: dict[int, list[int]] = {}
    for at, body in bodies.items():
        with suppress(ValueError, TypeError):  # told when its turn comes
            found[at] = entry_positions(body)
    return {at: positions for at, positions in found.items() if positions}


def unseen_because(error: BaseException) -> str:
    """Why a message that is in the log is not seen."""
    return f"stored, but nobody sees it yet ({error}); it will be seen when that is over"


def _share(outcomes: Outcomes, puts: Sequence[WaitingPut]) -> None:
    """Give each put what came of its requests."""
    at, now_s = 0, time.monotonic()
    for put in puts:
        put.appended_s = put.appended_s or now_s
        put.outcomes = outcomes[at : at + len(put.requests)]
        at += len(put.requests)
