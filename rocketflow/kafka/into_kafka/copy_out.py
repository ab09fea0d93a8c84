"""store-to-kafka: each transaction holds ranges of queues and the mark with their end offsets.

Readers with `read_committed` see either all of a transaction or none of it; after a kill the bridge resumes at the
mark of the last committed transaction. If the outcome of a commit is unknown, a new producer with the same
transactional id ends that transaction, and the mark then shows whether it was committed.
"""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING, Final

from rocketflow.errors import UsageError
from rocketflow.kafka.client import clients
from rocketflow.kafka.client.topic_ids import TopicIds
from rocketflow.kafka.errors import (
    BridgeError,
    DataLossError,
    FencedBridgeError,
    KafkaRefusedError,
    KafkaUnreachableError,
    MessageRefusedError,
    TopicReplacedError,
)
from rocketflow.kafka.into_kafka.copied_topics import CopiedTopics
from rocketflow.kafka.into_kafka.kafka_topics import TargetTopics
from rocketflow.kafka.into_kafka.producer_session import ProducerSession
from rocketflow.kafka.into_kafka.progress_mark import ensure_topic, read_marks
from rocketflow.kafka.into_kafka.range_sender import QueueRange, RangeSender
from rocketflow.kafka.options.bridge_options import CONTINUE
from rocketflow.kafka.shared.claims import Pair, claims_of_marks, refuse_claimed
from rocketflow.kafka.shared.mark import Mark, Progress, encode_mark
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest, warn, warn_of_loss
from rocketflow.kafka.shared.topic_record import check_same_topic
from rocketflow.process.stop_signals import StoppedError
from rocketflow_store import StoreConfig, StoreReader
from rocketflow_store.spi.places import store_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rocketflow.kafka.options.bridge_options import BridgeOptions

_IDLE_S: Final = 0.1
RETRY_S: Final = 0.5


class StoreToKafka:
    """One run of a bridge out of a store."""

    def __init__(self, options: BridgeOptions, stop: StopRequest) -> None:
        self._options, self._stop = options, stop
        self.summary = BridgeSummary(options.direction, options.bridge_id)
        self._progress: Progress = {}
        self._targets_of_mark: dict[str, str | None] = {}
        self._targets: dict[tuple[str, int], int] | None = None
        self._session: ProducerSession | None = None
        self._ids = TopicIds(options)
        self._new = True
        self._turn = 0
        self._first: list[QueueRange] = []
        """Ranges to send alone before all others: they show which message Kafka refuses."""

    def run(self) -> BridgeSummary:
        """Copy until stopped, or until caught up."""
        with StoreReader(self._options.store, StoreConfig.load()) as reader, contextlib.ExitStack() as at_last:
            self._path = reader.path
            self._topics = CopiedTopics(self._options, reader)
            self._topics.refresh()
            self._sender = RangeSender(self._options, reader, self._stop)
            at_last.callback(self._ids.close)
            at_last.callback(self._close_producer)
            with contextlib.suppress(StoppedError):
                with self._stop.interruptible():
                    self._start_producer()
                self._copy()
            if not self._stop.asked.is_set():
                self._update_lag()
        self.summary.stopped = self._stop.signal_name
        self.summary.progress = dict(self._progress)
        return self.summary

    # -- the loop

    def _copy(self) -> None:
        failed_since: float | None = None
        while not self._stop.asked.is_set():
            self._topics.refresh()
            ranges = self._plan()
            try:
                if ranges:
                    self._transact(ranges)
                    failed_since = None
                else:
                    self._ids.check_again(self._known_ids(self._progress))
            except (FencedBridgeError, MessageRefusedError, DataLossError, TopicReplacedError):
                raise
            except BridgeError as error:
                if self._stop.asked.is_set():
                    return
                self._close_producer()  # now each message was refused or not
                if self._isolate(ranges, error):
                    failed_since = None
                failed_since = failed_since or time.monotonic()
                self._recover(error, failed_since)
                continue
            if self.summary.is_report_due():
                self._update_lag()
                self.summary.report()
            if not ranges:
                if self._is_caught_up():
                    self.summary.caught_up = True
                    return
                self._stop.asked.wait(_IDLE_S)

    def _isolate(self, ranges: list[QueueRange], error: BridgeError) -> bool:
        """Send the messages before one that Kafka has refused, then that one alone; then it is refused for certain.

        After a refusal kafka-python fails all that is sent later with the same error. Return whether one was refused.
        """
        found = self._sender.take_suspect()
        if found is None:
            return False
        sent, offset = found
        if ranges == [QueueRange(sent.topic, sent.queue_id, offset, offset + 1)]:
            self._sender.refuse(sent, str(error))
            self._first = []
        else:
            before = QueueRange(sent.topic, sent.queue_id, sent.start, offset)
            alone = QueueRange(sent.topic, sent.queue_id, offset, offset + 1)
            self._first = [one for one in (before, alone) if one.start < one.end]
        return True

    def _recover(self, error: BridgeError, failed_since: float) -> None:
        """Start a new producer after a failed transaction, and resume at the mark."""
        if isinstance(error, KafkaRefusedError) and time.monotonic() - failed_since > clients.GIVE_UP_S:
            raise error
        if self._options.until_caught_up and time.monotonic() - failed_since > clients.GIVE_UP_S:
            raise error
        warn(f"{error}; retrying")
        self._stop.asked.wait(RETRY_S)
        with self._stop.interruptible():
            try:
                self._start_producer()
            except KafkaUnreachableError as still:
                warn(str(still))

    def _start_producer(self) -> None:
        """Fence the previous producer of this id, end its open transaction, and read its mark."""
        self._kafka = TargetTopics(self._options)
        if self._new:
            self._kafka.check_exist(self._topics.names.values())
            for topic, target in self._topics.names.items():
                self._kafka.partitions(target, self._topics.partitions_for(topic))
            ensure_topic(self._options)
        self._session = ProducerSession(self._options)
        self._sender.connect(self._kafka, self._session.producer)
        try:
            self._resume_from_mark()
        except BaseException:
            self._close_producer()  # nothing may be sent before the bridge's progress is known
            raise
        if self._new:
            for topic, target in sorted(self._topics.names.items()):
                self.summary.report_start(topic, target, self._progress.get(topic, {"every queue": None}))
        self._new = False

    def _resume_from_mark(self) -> None:
        marks = read_marks(self._options)
        mark = marks.get(self._options.bridge_id)
        self._refuse_claimed({} if mark is None else mark.progress, marks)
        if mark is not None:
            self._check_mark(mark)
            self._progress, self._targets_of_mark = mark.progress, dict(mark.targets)
        elif self._new and self._options.start == "latest":
            bounds = self._topics.bounds()
            self._progress = {}
            for (topic, queue_id), (_, high) in bounds.items():
                self._progress.setdefault(topic, {})[str(queue_id)] = high
            self._transact([], mark_alone=True)
        elif not self._new:
            self._progress, self._targets_of_mark = {}, {}

    def _refuse_claimed(self, progress: Progress, marks: Mapping[str, Mark]) -> None:
        """Raise TopicClaimedError for topics without progress that another bridge has copied."""
        new = {topic: target for topic, target in self._topics.names.items() if topic not in progress}
        if self._options.restart or not new:
            return
        pairs = [Pair(topic, target, self._kafka.id_of(target)) for topic, target in new.items()]
        refuse_claimed(self._options.bridge_id, pairs, claims_of_marks(marks, store_id(self._path)))

    def _check_mark(self, mark: Mark) -> None:
        """Raise UsageError if the mark belongs to another store, TopicReplacedError if a topic was recreated."""
        this_store = store_id(self._path)
        if mark.store_id and this_store and mark.store_id != this_store:
            raise UsageError(
                f"bridge {self._options.bridge_id} copied the store with id {mark.store_id}, this store has id "
                f"{this_store}; give another --id"
            )
        for topic, target in self._topics.names.items():
            if topic in mark.progress:
                self._kafka.partitions(target, self._topics.partitions_for(topic))
                check_same_topic(target, mark.targets.get(target), self._kafka.id_of(target), self._options.bridge_id)

    def _close_producer(self) -> None:
        made, self._session = self._session, None
        if made is not None:
            made.close()

    # -- what to copy

    def _plan(self) -> list[QueueRange]:
        """Return the ranges of the next transaction: a part of every queue, at most `max_batch_rows` in total."""
        bounds = self._topics.bounds()
        starts = {key: self._checked_start(*key, *limits) for key, limits in bounds.items()}
        waiting = [QueueRange(*key, starts[key], high) for key, (_, high) in bounds.items() if starts[key] < high]
        if self._targets is None:
            self._targets = {(one.topic, one.queue_id): one.end for one in waiting}
        while self._first:
            one = self._first.pop(0)
            if starts.get((one.topic, one.queue_id)) == one.start:
                return [one]
        if not waiting:
            return []
        self._turn += 1
        first = self._turn % len(waiting)  # the first range may use all of a transaction's bytes
        waiting = (waiting[first:] + waiting[:first])[: self._options.max_batch_rows]
        each = max(self._options.max_batch_rows // len(waiting), 1)
        return [QueueRange(one.topic, one.queue_id, one.start, min(one.end, one.start + each)) for one in waiting]

    def _checked_start(self, topic: str, queue_id: int, low: int, high: int) -> int:
        start = self._progress.get(topic, {}).get(str(queue_id))
        if start is None or low <= start <= high:
            return low if start is None else start
        resume_at = low if start < low else high
        what = (
            f"queue offsets {start} to {low - 1} were deleted by retention before they were copied"
            if start < low
            else f"the queue ends at {high}, but offsets up to {start} were copied earlier; is this the same store?"
        )
        where = f"topic {topic} queue {queue_id}: {what}"
        if self._options.on_data_loss != CONTINUE:
            raise DataLossError(f"{where}; to resume at {resume_at}, give --on-data-loss continue")
        lost = max(low - start, 1)
        warn_of_loss(self._options.store, where, resume_at, lost)
        self.summary.lost += lost
        self._progress[topic][str(queue_id)] = resume_at
        return resume_at

    def _is_caught_up(self) -> bool:
        if not self._options.until_caught_up or self._targets is None:
            return False
        done = self._progress
        left = [key for key, end in self._targets.items() if done.get(key[0], {}).get(str(key[1]), 0) < end]
        return not left or not self._topics.bounds().keys() & left  # a deleted topic gets no more messages

    def _update_lag(self) -> None:
        lag = 0
        for (topic, queue_id), (low, high) in self._topics.bounds().items():
            lag += high - max(self._progress.get(topic, {}).get(str(queue_id), low), low)
        self.summary.lag_messages = lag
        if not lag:
            self.summary.lag_ms = 0

    # -- transactions

    def _transact(self, ranges: list[QueueRange], *, mark_alone: bool = False) -> None:
        """Commit one transaction: the messages of the ranges, as far as `max_batch_bytes` allow, and the mark."""
        session = self._session
        if session is None:
            raise KafkaUnreachableError(f"Kafka at {self._options.bootstrap} does not answer")
        progress = {topic: dict(queues) for topic, queues in self._progress.items()}
        rows = quarantined = lost = 0
        newest = 0
        with clients.kafka_errors(self._options), _without_gc():
            session.begin_transaction()
            self._sender.begin()
            room = self._options.max_batch_bytes
            for one in ranges:
                if room <= 0 or self._stop.asked.is_set():
                    break
                sent = self._sender.send(one, self._topics.names[one.topic], room)
                room -= sent.size
                rows, quarantined, lost = rows + sent.rows, quarantined + sent.quarantined, lost + sent.lost
                newest = max(newest, sent.newest_ms)
                progress.setdefault(one.topic, {})[str(one.queue_id)] = sent.following
            known = self._known_ids(progress)
            targets = self._targets_of_mark | {target: one for target, one in known.items() if one is not None}
            mark = encode_mark(Mark(store_id(self._path), progress, targets))
            marked = session.producer.send(
                self._options.progress_topic, key=self._options.bridge_id.encode(), value=mark, partition=0
            )
            with self._stop.interruptible():
                clients.flush(session.producer)
                marked.get(timeout=clients.CALL_MS / 1000)  # done by now: raises why the broker refused it
                self._ids.check(known)  # of the topics that have the messages now: their ids are asked for afterwards
                session.commit_transaction()
        self._progress, self._targets_of_mark = progress, targets
        if not mark_alone:
            self.summary.rows += rows - quarantined
            self.summary.quarantined += quarantined
            self.summary.lost += lost
            self.summary.batches += 1
            self.summary.lag_ms = max(clients.now_ms() - newest, 0) if newest else 0

    def _known_ids(self, progress: Progress) -> dict[str, str | None]:
        """Return the ids that the target topics of `progress` had when they were described."""
        copied = {self._topics.names[topic] for topic in progress if topic in self._topics.names}
        return {target: self._kafka.id_of(target) for target in sorted(copied)}


@contextlib.contextmanager
def _without_gc() -> Iterator[None]:
    """Disable the garbage collector in this block.

    Every message has a future that lives until the transaction ends: collections free nothing and take a third of the
    time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
