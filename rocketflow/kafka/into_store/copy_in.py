"""kafka-to-store: polls batches and commits them together with their offsets; `store_commit` prevents duplicates.

The main thread polls; one worker decodes, encodes and commits what was polled before. While the worker is busy and
another full commit waits, all partitions are paused: memory stays within two commits and one fetch response. See
`consumer_session` for the consumer, `backlog` for waiting batches, `commit_worker` for commits.
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
            with self._stop.interruptible():
                kind = GroupAssignment if options.shared else ManualAssignment
                self._assignment = kind(options, self._session.consumer, port)
            port.begin()  # only after Kafka has answered and all topics exist
            last = port.last_commit(options.sink_id)
            self.summary.progress = {} if last is None else offsets_alone(last.progress)
            self._worker = at_last.enter_context(CommitWorker(options, port))
            with self._stop.interruptible():
                self._follow_assignment({})
            self._copy()
        self.summary.stopped = self._stop.signal_name
        return self.summary

    # -- the loop

    def _copy(self) -> None:
        with contextlib.suppress(StoppedError):
            self._poll_and_commit()
        self._reap(wait=True)
        if not self._stop.asked.is_set():
            self._update_lag()

    def _poll_and_commit(self) -> None:
        while not self._stop.asked.is_set():
            polled = self._session.poll(is_waiting=self._worker.is_busy or bool(self._backlog))
            if polled.out_of_range:
                self._resume_after_loss(polled.out_of_range)
            self._follow_assignment(polled.batches)
            self._backlog.take(polled.batches)
            self._reap(wait=False)
            self._session.pause(self._worker.is_busy and self._backlog.is_enough)
            if not self._worker.is_busy and self._backlog.is_due:
                self._submit()
            if not self._worker.is_busy and self._is_caught_up():
                self.summary.caught_up = True
                break
            if self.summary.is_report_due():
                self.summary.report("waiting for the group" if self._update_lag() else "")

    def _follow_assignment(self, polled: dict[Any, list[Any]]) -> None:
        """Start assigned partitions, and drop revoked ones with what was polled of them.

        Assigned partitions are started here, in the polling thread, and removed from `polled`: their batches may have
        been fetched from an earlier position.
        """
        with self._stop.interruptible():
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
            self.summary.report_start(*names, offsets)
        if came and self._options.until_caught_up and self._targets is not None:
            self._targets |= self._session.ends(tp for tp in came if tp in self._backlog.reading)

    # -- commits

    def _submit(self, *, progress_alone: bool = False) -> None:
        """Give the worker the parts of the next commit."""
        parts = self._backlog.next_parts(self._session.position, progress_alone=progress_alone)
        if parts:
            self._worker.submit(parts)

    def _check_ids(self) -> None:
        """Raise TopicReplacedError if the client's metadata has another topic id than at the start of a partition."""
        begun = {tp.topic: reading.topic_id for tp, reading in self._backlog.reading.items()}
        for topic, now in ids_of(self._session.consumer, begun).items():
            check_same_topic(topic, begun[topic], now, self._options.bridge_id)

    def _reap(self, *, wait: bool) -> None:
        """Record the outcome of a finished commit; with `wait`, wait for a running one."""
        outcome = self._worker.outcome(wait=wait)
        if outcome is None:
            return
        self._sum_up(outcome)
        for one in self._worker.in_commit:
            if one.part.key in outcome.committed and self._backlog.reading.get(one.tp) is one.reading:
                one.reading.base = one.part.following  # unless the partition was restarted meanwhile
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
        """Resume partitions that another bridge of this id has advanced; raise FencedBridgeError without `--share`."""
        if not self._options.shared:
            topic, partition = next(iter(stale))
            raise FencedBridgeError(
                f"bridge {self._options.bridge_id}: another bridge with the same id copied {topic} partition "
                f"{partition} meanwhile; run only one of them, give another --id, or run both with --share"
            )
        for one in self._worker.in_commit:
            tp, part = one.tp, one.part
            if part.key in stale and tp in self._backlog.reading:
                base = None if stale[part.key] < 0 else stale[part.key]
                self._backlog.begin(tp, Reading(part.store_topic, part.partitions, part.topic_id, base))
                self._session.begin(tp, base, latest=False)

    # -- ends

    def _is_caught_up(self) -> bool:
        """Return True if everything is committed that Kafka had at the first call."""
        if not self._options.until_caught_up or not self._assignment.is_complete():
            return False
        if self._targets is None:
            self._targets = self._session.ends(self._backlog.reading)
        for tp, target in self._targets.items():
            reading = self._backlog.reading.get(tp)
            if reading is not None and (reading.base is None or reading.base < target):
                position = self._session.position(tp)
                if not reading.polled and position is not None and position >= target:
                    self._submit(progress_alone=True)  # the transaction markers after the last message
                return False
        return True

    def _update_lag(self) -> bool:
        """Count what is not copied yet, also while the group assigns no partitions; return whether that is so."""
        waiting = self._assignment.waiting()
        end_of = self._session.consumer.highwater
        unread = {tp: one.base for tp, one in self._backlog.reading.items() if one.base is None or end_of(tp) is None}
        remaining = self._session.remaining(waiting or unread)
        if remaining is not None:
            self.summary.lag_messages = remaining + (0 if waiting else self._backlog.lag(end_of))
            if not self.summary.lag_messages:
                self.summary.lag_ms = 0
        return bool(waiting)

    def _resume_after_loss(self, out_of_range: dict[Any, int]) -> None:
        """Resume partitions whose next offset Kafka does not have, or raise DataLossError."""
        self._reap(wait=True)
        self._session.refresh_topics()
        self._check_ids()
        self._follow_assignment({})  # also checks the topics of new partitions
        low, high = self._session.begins(out_of_range), self._session.ends(out_of_range)
        for tp, offset in out_of_range.items():
            if low[tp] <= (offset or 0) <= high[tp]:
                self._session.consumer.seek(tp, offset)  # it exists again: a replica had lagged behind
                continue
            if (offset or 0) < low[tp]:
                lost, resume_at = low[tp] - (offset or 0), low[tp]
                what = f"offsets {offset} to {low[tp] - 1} were deleted (retention or DeleteRecords) before the copy"
            else:
                lost, resume_at = 1, high[tp]
                what = (
                    f"the log ends at {high[tp]}, but offsets up to {offset} were copied earlier: the log was "
                    "truncated, or the topic was recreated (then give another --id)"
                )
            where = f"{tp.topic} partition {tp.partition}: {what}"
            if self._options.on_data_loss != CONTINUE:
                raise DataLossError(f"{where}; to resume at {resume_at}, give --on-data-loss continue")
            warn_of_loss(self._options.store, where, resume_at, lost)
            self.summary.lost += lost
            self._session.consumer.seek(tp, resume_at)
