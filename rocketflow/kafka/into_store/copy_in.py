"""kafka-to-store: polls, and commits what came with how far it came; see `store_commit` for why nothing comes twice.

The main thread polls; one worker decodes, encodes and commits what was polled before. While it is busy and as much
again waits, all partitions are paused: what is in memory stays within two commits and one answer of Kafka. The consumer
is `consumer_session`'s, what waits is the `backlog`'s, commits are the `commit_worker`'s.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import DataLossError, FencedBridgeError
from rocketflow.kafka.into_store.assignment import GroupAssignment, ManualAssignment
from rocketflow.kafka.into_store.backlog import Backlog, Reading
from rocketflow.kafka.into_store.commit_worker import CommitWorker
from rocketflow.kafka.into_store.consumer_session import ConsumerSession
from rocketflow.kafka.into_store.store_port import StorePort, config_of
from rocketflow.kafka.options.bridge_options import CONTINUE
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest, warn_of_loss
from rocketflow.kafka.shared.topic_record import check_same_topic, ids_of, offsets_alone
from rocketflow.process.stop_signals import StoppedError

if TYPE_CHECKING:
    from rocketflow.kafka.into_store.store_commit import CommitOutcome, Partition
    from rocketflow.kafka.options.bridge_options import BridgeOptions


class KafkaToStore:
    """One run of a bridge into a store."""

    def __init__(self, options: BridgeOptions, stop: StopRequest) -> None:
        self._options, self._stop = options, stop
        self.summary = BridgeSummary(options.direction, options.bridge_id)
        self._backlog = Backlog(options)
        self._targets: dict[Any, int] | None = None

    def run(self) -> BridgeSummary:
        """Copy until stopped, or until caught up."""
        options = self._options
        port = StorePort(
            options.store,
            config_of(options.config),
            hold=options.hold_store,
            lock_timeout_ms=options.lock_timeout_ms,
            stop=self._stop.asked,
        )
        with contextlib.ExitStack() as at_last:
            at_last.callback(port.close)
            self._session = ConsumerSession(options, self._stop)
            at_last.callback(self._session.close)
            with self._stop.may_end():
                kind = GroupAssignment if options.shared else ManualAssignment
                self._assignment = kind(options, self._session.consumer, port)
            port.begin()  # Kafka is there, and so are the topics
            last = port.last_commit(options.sink_id)
            self.summary.progress = {} if last is None else offsets_alone(last.progress)
            self._worker = at_last.enter_context(CommitWorker(options, port))
            with self._stop.may_end():
                self._follow_assignment({})
            self._copy()
        self.summary.stopped = self._stop.signal_name
        return self.summary

    # -- the loop

    def _copy(self) -> None:
        with contextlib.suppress(StoppedError):
            self._copy_on()
        self._reap(wait=True)
        if not self._stop.asked.is_set():
            self._look_at_lag()

    def _copy_on(self) -> None:
        while not self._stop.asked.is_set():
            polled = self._session.poll(is_waiting=self._worker.is_busy or bool(self._backlog))
            if polled.out_of_range:
                self._go_on_after_loss(polled.out_of_range)
            self._follow_assignment(polled.batches)
            self._backlog.take(polled.batches)
            self._reap(wait=False)
            self._session.pause(self._worker.is_busy and self._backlog.is_enough)
            if not self._worker.is_busy and self._backlog.is_due:
                self._submit()
            if not self._worker.is_busy and self._is_caught_up():
                self.summary.caught_up = True
                break
            if self.summary.tell_due():
                self._look_at_lag()
                self.summary.tell()

    def _follow_assignment(self, polled: dict[Any, list[Any]]) -> None:
        """Partitions that came, and that went: what was polled of those is dropped, whoever has them reads it again.

        A partition that came is begun here, in the thread that polls: what this poll gave of it may be of before.
        """
        with self._stop.may_end():
            came, went = self._assignment.changes()
        for tp in went:
            self._backlog.drop(tp)
        for tp, place in came.items():
            polled.pop(tp, None)
            self._backlog.begin(tp, Reading(place.store_topic, place.partitions, place.topic_id, place.base))
            self._session.join(tp, place.base, latest=place.latest)
        begun: dict[tuple[str, str], dict[str, int | None]] = {}
        for tp, place in came.items():
            begun.setdefault((tp.topic, place.store_topic), {})[str(tp.partition)] = place.base
        for names, offsets in sorted(begun.items()):
            self.summary.tell_begun(*names, offsets)
        if came and self._options.until_caught_up and self._targets is not None:
            self._targets |= self._session.ends(tp for tp in came if tp in self._backlog.reading)

    # -- commits

    def _submit(self, *, progress_alone: bool = False) -> None:
        """Hand what was polled to the worker, as much of it as one commit may have."""
        self._check_ids()
        parts = self._backlog.next_parts(self._session.position, progress_alone=progress_alone)
        if parts:
            self._worker.submit(parts)

    def _check_ids(self) -> None:
        """TopicReplacedError where Kafka has told of another topic of a name since its partitions were begun."""
        begun = {tp.topic: reading.topic_id for tp, reading in self._backlog.reading.items()}
        for topic, now in ids_of(self._session.consumer, begun).items():
            check_same_topic(topic, begun[topic], now, self._options.bridge_id)

    def _reap(self, *, wait: bool) -> None:
        """Note what a finished commit did."""
        outcome = self._worker.outcome(wait=wait)
        if outcome is None:
            return
        self._sum_up(outcome)
        for one in self._worker.in_commit:
            if one.part.key in outcome.committed and self._backlog.reading.get(one.tp) is one.reading:
                one.reading.base = one.part.following  # not of a partition that was begun anew meanwhile
        if outcome.stale:
            self._superseded(outcome.stale)
        self._session.inform(outcome.committed, self._backlog.reading)

    def _sum_up(self, outcome: CommitOutcome) -> None:
        summary = self.summary
        summary.rows += outcome.rows - outcome.quarantined
        summary.quarantined += outcome.quarantined
        summary.batches += bool(outcome.rows)
        summary.progress = outcome.progress
        if outcome.newest_ms:
            summary.lag_ms = max(clients.now_ms() - outcome.newest_ms, 0)

    def _superseded(self, stale: dict[Partition, int]) -> None:
        """Another bridge of this id committed messages of a partition: read it from there, or end."""
        if not self._options.shared:
            topic, partition = next(iter(stale))
            raise FencedBridgeError(
                f"bridge {self._options.bridge_id}: another bridge with this id copied {topic} partition {partition} "
                "meanwhile; run one, give another --id, or let them --share"
            )
        for one in self._worker.in_commit:
            tp, part = one.tp, one.part
            if part.key in stale and tp in self._backlog.reading:
                base = None if stale[part.key] < 0 else stale[part.key]
                self._backlog.begin(tp, Reading(part.store_topic, part.partitions, part.topic_id, base))
                self._session.begin(tp, base, latest=False)

    # -- ends

    def _is_caught_up(self) -> bool:
        """Whether all is committed that was there when this was asked first."""
        if not self._options.until_caught_up or not self._assignment.is_complete():
            return False
        if self._targets is None:
            self._targets = self._session.ends(self._backlog.reading)
        for tp, target in self._targets.items():
            reading = self._backlog.reading.get(tp)
            if reading is not None and (reading.base is None or reading.base < target):
                position = self._session.position(tp)
                if not reading.polled and position is not None and position >= target:
                    self._submit(progress_alone=True)  # what is behind the last message: marks of transactions
                return False
        return True

    def _look_at_lag(self) -> None:
        self.summary.lag_messages = self._backlog.behind(self._session.consumer.highwater)
        if not self.summary.lag_messages:
            self.summary.lag_ms = 0

    def _go_on_after_loss(self, out_of_range: dict[Any, int]) -> None:
        """Kafka does not have what comes next: DataLossError, or on from what it has."""
        self._reap(wait=True)
        self._session.refresh_topics()
        self._check_ids()
        self._follow_assignment({})  # which tells of partitions that have just come whether they fit
        low, high = self._session.begins(out_of_range), self._session.ends(out_of_range)
        for tp, offset in out_of_range.items():
            if low[tp] <= (offset or 0) <= high[tp]:
                self._session.consumer.seek(tp, offset)  # it is there again: a replica was behind
                continue
            if (offset or 0) < low[tp]:
                lost, go_on = low[tp] - (offset or 0), low[tp]
                what = f"offsets {offset} to {low[tp] - 1} are gone (retention, or deleted records)"
            else:
                lost, go_on = 1, high[tp]
                what = (
                    f"the log ends at {high[tp]}, before {offset} that was copied up to: it was cut, or the topic was "
                    "made anew (then use another --id)"
                )
            where = f"{tp.topic} partition {tp.partition}: {what}"
            if self._options.on_data_loss != CONTINUE:
                raise DataLossError(f"{where}; to go on at {go_on}: --on-data-loss continue")
            warn_of_loss(self._options.store, where, go_on, lost)
            self.summary.lost += lost
            self._session.consumer.seek(tp, go_on)
