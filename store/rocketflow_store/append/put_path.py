"""The write path of messages and client batches: encode, place, write and publish in runs, then acknowledge.

Puts are serialised by the put lock; syncs are shared (`group_flush.GroupFlush`).
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Final

from rocketflow_store.append.assigned_properties import NOTHING_ASSIGNED
from rocketflow_store.append.put_lock import PutLock, WaitingPut
from rocketflow_store.append.put_route import PutRoute
from rocketflow_store.append.record_run import MAX_RUN_BYTES, MAX_RUN_MESSAGES, RecordRun
from rocketflow_store.append.requests import SYNC_TIMED_OUT, Outcomes, PutRequest, body_size
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import RecordFields
from rocketflow_store.log.commit_log import LOG_END
from rocketflow_store.model.broker_requests import RawMessage, SentRun
from rocketflow_store.model.errors import (
    DescriptorLimitError,
    FileAllocationTimeoutError,
    MessageRejectedError,
    StoreAccessError,
    StoreError,
    StoreFencedError,
    StoreFullError,
    StorePoolDeficientError,
)
from rocketflow_store.model.message import Message, MessageBatch
from rocketflow_store.model.message_id import encode_host, host_digits, offset_msg_id
from rocketflow_store.model.property_names import PROPERTY_INNER_NUM, PROPERTY_TIMER_OUT_MS
from rocketflow_store.model.results import PutMessageResult
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG
from rocketflow_store.model.topic_names import TIMER_TOPIC
from rocketflow_store.records.encoding.compiled_messages import CompiledMessages
from rocketflow_store.records.encoding.delayed_placement import TimerCongestion
from rocketflow_store.records.encoding.message_encoder import MessageEncoder, number_out_of_range
from rocketflow_store.records.encoding.raw_encoder import RawEncoder, as_message
from rocketflow_store.records.encoding.unplaced_record import unplaced_record
from rocketflow_store.telemetry import events
from rocketflow_store.telemetry.statistics import SLOW_PUT_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rocketflow_store.append.acknowledgement import Acknowledgement
    from rocketflow_store.append.log_append import LogAppend
    from rocketflow_store.append.put_route import RouteTargets
    from rocketflow_store.append.queue_choice import QueueChoice
    from rocketflow_store.append.write_gate import WriteGate
    from rocketflow_store.model.kernel_objects import Records
    from rocketflow_store.records.encoding.unplaced_record import UnplacedRecord
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch
    from rocketflow_store.views.dispatch.side_queues import SideQueues


_BUSY: Final = "another put has held the put lock for longer than osPageCacheBusyTimeOutMills"
_INTERRUPTED: Final = "the thread that appended this put with others was interrupted; the message may be stored"
_TIMER_TOPIC: Final = TIMER_TOPIC.encode()


class PutPath:
    """Puts messages and batches, in runs; every thread that appends to the log holds `lock`."""

    def __init__(
        self,
        path: Path,
        config: StoreConfig,
        log_append: LogAppend,
        queue_choice: QueueChoice,
        gate: WriteGate,
        acknowledgement: Acknowledgement,
        statistics: StoreStatistics,
        side: SideQueues,
    ) -> None:
        self._path, self._config, self._statistics = path, config, statistics
        self._log_append, self._queue_choice, self._gate = log_append, queue_choice, gate
        self._acknowledgement = acknowledgement
        self._encoder = MessageEncoder(config)
        self._raw = RawEncoder(config, self._encoder.rules, self._encoder.next_uniq_key)
        self._compiled = CompiledMessages(config, self._encoder)
        self._property_crc = config.append_prop_crc
        self._side = side
        self._store_host, self._id_prefix = encode_host(config.store_host), host_digits(config.store_host)
        self._refusing = False
        self._route: PutRoute | None = None
        self.take_one: Callable[[object], PutMessageResult | None] = lambda _: None
        """Stores a message and returns its result; returns None if the message is left over for `put`."""
        self.lock = PutLock()

    def count_timers_by(self, waiting_at: Callable[[int], int] | None) -> None:
        """Refuse timer messages of ticks (ms) for which `waiting_at` returns too many; None refuses none.

        The limit is timerCongestNumEachSlot.
        """
        most = self._config.timer_congest_num_each_slot
        self._encoder.timer_congestion = None if waiting_at is None else TimerCongestion(waiting_at, most)

    def route_single_puts(self, dispatch: ConfirmedDispatch, targets: RouteTargets) -> None:
        """Let the kernel put single messages, unless each put has to wait for a sync or to wake a thread."""
        flush, compiled = self._acknowledgement, self._compiled
        if compiled.writer is None or flush.sync_flush or flush.on_append is not None:
            return
        self._route = PutRoute(
            *(self._config, (compiled, self._encoder), self.lock, self._log_append, self._queue_choice.turns),
            *(dispatch, self._statistics, targets, self._id_prefix),
        )
        self.take_one = self._route.take

    def put(self, requests: Sequence[PutRequest]) -> list[PutMessageResult]:
        """Store requests in order with one flush; return the result of each, or raise the first error."""
        began_ns = time.perf_counter_ns()
        if self.is_page_cache_busy:
            outcomes = self.refuse_busy(requests)
        elif self.lock.acquire_now():
            try:
                outcomes = self._append(requests)
                end = self._log_append.commit_log.numbers[LOG_END]
            finally:
                self.lock.release()
            outcomes = self._acknowledgement.acknowledge(outcomes, end)
        else:
            outcomes = self._put_grouped(WaitingPut(requests))
        elapsed_ns = time.perf_counter_ns() - began_ns
        if elapsed_ns >= SLOW_PUT_NS:
            self._statistics.slow_put(elapsed_ns, len(outcomes))
        for outcome in outcomes:
            if not isinstance(outcome, PutMessageResult):
                raise outcome
        if self._route is not None and len(outcomes) == 1:
            self._route.learn(outcomes[0])  # type: ignore[arg-type]
        return outcomes  # type: ignore[return-value]

    def append(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Append requests in order; return their outcomes, before any is acknowledged.

        A refused request has a result with the status of the refusal.
        """
        if self.is_page_cache_busy:
            return self.refuse_busy(requests)
        with self.lock:
            return self._append(requests)

    def append_locked(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Append requests as `append` does; the caller holds the lock."""
        return self._append(requests)

    @property
    def wrote_offset(self) -> int:
        """End (exclusive) of the log."""
        return self._log_append.commit_log.numbers[LOG_END]

    @property
    def busy_ms(self) -> int:
        """Time (ms) for which the put that is being appended has held the lock, 0 without one."""
        began_ms = self._statistics.lock_began_ms
        return max(self._config.clock.now_ms() - began_ms, 0) if began_ms else 0

    @property
    def is_page_cache_busy(self) -> bool:
        """Return True if a put has held the lock for more than osPageCacheBusyTimeOutMills."""
        return self._statistics.lock_began_ms > 0 and self._statistics.page_cache_busy(
            self._config.clock.now_ms(), self._config.os_page_cache_busy_time_out_mills
        )

    def refuse_busy(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Refuse requests because another put holds the lock for too long."""
        return self._refuse_all(requests, PutMessageStatus.OS_PAGE_CACHE_BUSY, _BUSY)

    def close(self) -> None:
        """Refuse every later put with StoreClosedError."""
        with self.lock:
            self._close()

    def _close(self) -> None:
        self._gate.close()
        if self._route is not None:
            self._route.close()

    def abandon_after_fork(self) -> None:
        """Refuse every later put in a forked process, where a thread of the parent may hold the lock."""
        self.lock = PutLock()
        self._close()

    def _put_grouped(self, put: WaitingPut) -> Outcomes:
        """Put together with other waiting puts, because another thread holds the lock."""
        timeout_s = self._acknowledgement.timeout_s if self._acknowledgement.sync_flush else -1
        taken = self.lock.queue_up(put, timeout_s)
        if not taken:
            return self._wait_for_leader(put, timeout_s)
        interrupted = _INTERRUPTED
        try:
            requests = [request for one in taken for request in one.requests]
            try:
                outcomes = self._append(requests)
                end = self._log_append.commit_log.numbers[LOG_END]
            except Exception as error:  # the same for all: the store was closed
                outcomes, end = [error] * len(requests), 0
            finally:
                self.lock.release()
            _distribute(outcomes, taken)
            _distribute(self._acknowledgement.acknowledge(outcomes, end), taken)
            interrupted = ""
        finally:
            for one in taken[1:]:
                if interrupted:
                    one.outcomes = self._acknowledgement.mark_late(one.outcomes, interrupted)
                one.done = True
                one.wake()
        return put.outcomes

    def _wait_for_leader(self, put: WaitingPut, timeout_s: float) -> Outcomes:
        """Return the outcomes of a put that another thread appends and acknowledges.

        Without an acknowledgement within `timeout_s` of the append, they are marked late.
        """
        while not put.done:
            remaining_s = timeout_s
            if put.outcomes and timeout_s >= 0:
                remaining_s = put.appended_s + timeout_s - time.monotonic()
                if remaining_s <= 0:
                    return self._acknowledgement.mark_late(put.outcomes, SYNC_TIMED_OUT)
            put.sleep(remaining_s)
        if not put.outcomes:
            return self._refuse_all(put.requests, PutMessageStatus.UNKNOWN_ERROR, _INTERRUPTED)
        return put.outcomes

    def _append(self, requests: Sequence[PutRequest]) -> Outcomes:
        """Append requests in runs; the caller holds the put lock."""
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

    def _append_run(self, requests: Sequence[PutRequest]) -> Outcomes:
        statistics = self._statistics
        try:
            if self._gate.is_shut:
                self._gate.check()
            now_ms = statistics.lock_began_ms = self._log_append.tick()
            log, offsets = self._log_append.commit_log, self._log_append.offsets
            run = RecordRun(log, offsets, self._side.is_plain, now_ms, property_crc=self._property_crc)
            self._encoder.begin_run(len(requests), now_ms)
            outcomes = self._take(run, requests, now_ms)
            if run.count:
                self._log_append.append(run)
            self._refusing = False
            return outcomes
        except (FileAllocationTimeoutError, StorePoolDeficientError) as error:
            return self._refuse_all(requests, PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
        except (StoreFencedError, StoreFullError, StoreAccessError, MemoryError) as error:
            why = str(error) or "out of memory"
            events.report(events.REFUSED, self._path, "put", why, quietly=self._refusing)
            self._refusing = True
            return self._refuse_all(requests, PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        finally:
            statistics.lock_began_ms = 0

    def _take(self, run: RecordRun, requests: Sequence[PutRequest], now_ms: int) -> Outcomes:
        """Add each request to the run, and return the outcomes."""
        outcomes: Outcomes = []
        for request in requests:
            try:
                if isinstance(request, RawMessage):
                    if request.needs:
                        _check_needs(request.needs, outcomes)
                    outcomes.append(self._take_raw(run, request, now_ms))
                    continue
                if isinstance(request, SentRun):
                    outcomes.append(self._take_sent(run, request, now_ms))
                    continue
                if isinstance(request, MessageBatch) and not self._side.is_batch_cq(request.topic):
                    outcomes.append(self._take_batch(run, request, now_ms))
                    continue
                if isinstance(request, RecordFields):
                    fields, properties, given = request, decode_properties(request.properties), True
                else:
                    message = request if isinstance(request, Message) else self._encoder.inner_batch(request)
                    queue_id = self._queue_choice.choose(message)
                    records = self._compiled.message(message, queue_id, now_ms)
                    if records is not None:
                        stored = self._take_records(run, records, message.topic, queue_id, now_ms)
                        if stored is not None:
                            outcomes.append(stored)
                            continue
                    fields, properties = self._encoder.encode(message, queue_id, now_ms)
                    given = False
                outcomes.append(self._take_fields(run, fields, properties, now_ms, given=given))
            except MessageRejectedError as error:
                outcomes.append(self.refuse(request, error.status, error.why))
            except DescriptorLimitError as error:
                outcomes.append(self.refuse(request, PutMessageStatus.SERVICE_NOT_AVAILABLE, str(error)))
            except (StoreError, MemoryError):
                raise
            except struct.error as error:
                given_one = as_message(request) if isinstance(request, RawMessage) else request
                why = number_out_of_range(given_one) or f"a number is out of range of its field: {error}"
                outcomes.append(self.refuse(request, PutMessageStatus.MESSAGE_ILLEGAL, why))
            except Exception as error:  # invalid input: a body that is a str, a topic that is None
                why = f"the request is not a valid message: {error!r}"
                outcomes.append(self.refuse(request, PutMessageStatus.MESSAGE_ILLEGAL, why))
        return outcomes

    def _take_batch(self, run: RecordRun, request: MessageBatch, now_ms: int) -> PutMessageResult:
        """Add a batch: its records are consecutive in the log and in one queue."""
        queue_id = self._queue_choice.choose(request)
        compiled = self._compiled.batch(request, queue_id, now_ms)
        if compiled is not None:
            stored = self._take_records(run, compiled, request.topic, queue_id, now_ms)
            if stored is not None:
                return stored
        batch = self._encoder.check_batch(request, queue_id, now_ms)
        records = self._encoder.batch_records(batch, now_ms)
        if self._side.is_plain(batch.topic):
            first, places = run.add_batch(records)
        else:
            first, places = run.next_offset(batch.topic, queue_id), []
            phy_offset = run.place(sum(records.sizes))
            for one in records.one_by_one(property_crc=self._property_crc):
                run.add(one, phy_offset)
                places.append(phy_offset)
                phy_offset += one.size
        prefix = self._id_prefix
        msg_ids = ",".join([f"{prefix}{place:016X}" for place in places])
        result = PutMessageStatus.PUT_OK, batch.topic, queue_id, first, places[0], msg_ids, now_ms, "", len(places)
        return PutMessageResult(*result, None, sum(records.sizes))

    def _take_records(
        self, run: RecordRun, records: Records, topic: str, queue_id: int, now_ms: int
    ) -> PutMessageResult | None:
        """Add records of the kernel, None if their topic is not plain."""
        places = run.add_records(records, topic, queue_id)
        if places is None:
            return None
        count, size = records.count, records.size
        if count == 1:
            msg_ids = f"{self._id_prefix}{places[1]:016X}"
        else:
            msg_ids = records.ids(self._id_prefix, places[1])
        place = topic, queue_id, *places, msg_ids
        return PutMessageResult._make((PutMessageStatus.PUT_OK, *place, now_ms, "", count, None, size))

    def _take_sent(self, run: RecordRun, request: SentRun, now_ms: int) -> PutMessageResult:
        """Add the records of usual sends; the result is that of all of them, `stored` of the records says more."""
        records = request.records
        for topic in {topic for topic, *_ in records.queues}:
            if not self._side.is_plain(topic):
                why = f"the queue.type of topic {topic} has changed meanwhile: send the message again"
                raise MessageRejectedError(PutMessageStatus.SERVICE_NOT_AVAILABLE, why)
        first = run.add_sent(records)
        place = "", -1, -1, first, "", now_ms, "", records.count
        return PutMessageResult(PutMessageStatus.PUT_OK, *place, None, records.size)

    def _refuse_all(self, requests: Sequence[PutRequest], status: PutMessageStatus, why: str) -> Outcomes:
        return [self.refuse(request, status, why) for request in requests]

    def refuse(self, request: PutRequest, status: PutMessageStatus, why: str) -> PutMessageResult:
        """Count a refusal, and return the result of a request that is not stored."""
        self._statistics.refused(status)
        given: object = getattr(request, "topic", "")
        topic = given.decode("utf-8", "replace") if isinstance(given, bytes) else str(given or "")
        return PutMessageResult(status, topic, -1, -1, -1, "", -1, why)

    def _take_fields(
        self, run: RecordRun, fields: RecordFields, properties: dict[str, str], now_ms: int, *, given: bool
    ) -> PutMessageResult:
        assigned = NOTHING_ASSIGNED
        if self._config.enable_lmq or fields.sys_flag & INNER_BATCH_FLAG or PROPERTY_INNER_NUM in properties:
            assigned = self._log_append.assigned.assign(run, fields, properties, given=given)
        one = unplaced_record(fields, properties, now_ms, self._encoder.rules, assigned.batch_num, assigned.lmq)
        self._check_size(one)
        places = run.add(one)
        for name, _ in assigned.lmq:
            run.take_offsets(name, LMQ_QUEUE_ID, 1)
        result = self._stored(one, fields.queue_id, places, now_ms)
        due_ms = None if given or fields.topic != _TIMER_TOPIC else properties.get(PROPERTY_TIMER_OUT_MS)
        return result if due_ms is None else result._replace(timer_out_ms=int(due_ms))

    def _take_raw(self, run: RecordRun, raw: RawMessage, now_ms: int) -> PutMessageResult:
        """Add a message of the wire; one that is not of the usual kind is decoded first."""
        one = self._raw.encode(raw, now_ms)
        if one is None:
            message = as_message(raw)
            queue_id = self._queue_choice.choose(message)
            fields, properties = self._encoder.encode(message, queue_id, now_ms, is_internal=raw.is_internal)
            return self._take_fields(run, fields, properties, now_ms, given=False)
        self._queue_choice.check(raw.topic, raw.queue_id)
        self._check_size(one)
        queue_offset, phy_offset = run.add(one)
        msg_id = f"{self._id_prefix}{phy_offset:016X}"
        place = raw.topic, raw.queue_id, queue_offset, phy_offset, msg_id
        return PutMessageResult._make((PutMessageStatus.PUT_OK, *place, now_ms, "", 1, None, one.size))

    def _check_size(self, one: UnplacedRecord) -> None:
        size = one.size
        limit = self._config.max_message_size + (0 if one.lmq else 65_536)
        if size > limit or size + 8 > self._config.mapped_file_size_commit_log:
            raise MessageRejectedError(
                PutMessageStatus.MESSAGE_ILLEGAL,
                f"record of {size} bytes is larger than maxMessageSize or mappedFileSizeCommitLog allow",
            )

    def _stored(self, one: UnplacedRecord, queue_id: int, places: tuple[int, int], now_ms: int) -> PutMessageResult:
        """Return the result of a record at `places` (queue offset, physical offset)."""
        msg_id = offset_msg_id(self._config.store_host, places[1])
        return PutMessageResult(
            *(PutMessageStatus.PUT_OK, one.topic, queue_id, *places, msg_id, now_ms, "", one.batch_num),
            *(None, one.size),
        )


def _check_needs(needs: int, outcomes: Outcomes) -> None:
    """Raise MessageRejectedError unless the last `needs` requests of a run are stored."""
    before = outcomes[-needs:]
    if len(before) < needs or not all(isinstance(one, PutMessageResult) and one.stored for one in before):
        why = "messages that this one depends on are not stored in the same run"
        raise MessageRejectedError(PutMessageStatus.UNKNOWN_ERROR, why)


def _distribute(outcomes: Outcomes, puts: Sequence[WaitingPut]) -> None:
    """Give each put the outcomes of its requests."""
    at, now_s = 0, time.monotonic()
    for put in puts:
        put.appended_s = put.appended_s or now_s
        put.outcomes = outcomes[at : at + len(put.requests)]
        at += len(put.requests)
