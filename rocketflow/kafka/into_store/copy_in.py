"""kafka-to-store: polls, and commits what came with how far it came; see `store_commit` for why nothing comes twice.

The main thread polls; one worker decodes, encodes and commits what was polled before. While it is busy and as much
again waits, all partitions are paused: what is in memory stays within two commits and one answer of Kafka.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rocketflow.kafka.client import clients
from rocketflow.kafka.client.batch_consumer import count_of, cut, rows_of, size_of
from rocketflow.kafka.client.record_batches import BrokenBatchError
from rocketflow.kafka.errors import DataLossError, FencedBridgeError, KafkaRefusedError, KafkaUnreachableError
from rocketflow.kafka.into_store.assignment import GroupAssignment, ManualAssignment, begin
from rocketflow.kafka.into_store.store_commit import CommitOutcome, PartEncoder, PartitionPart, commit_parts
from rocketflow.kafka.into_store.store_port import StorePort, config_of
from rocketflow.kafka.options.bridge_options import CONTINUE
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest, warn, warn_of_loss
from rocketflow.kafka.shared.topic_record import check_same_topic, ids_of, offsets_alone
from rocketflow.process.stop_signals import StoppedError
from rocketflow_store.spi.commits import ProgressMovedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow.kafka.into_store.store_commit import Partition
    from rocketflow.kafka.options.bridge_options import BridgeOptions

Answer = TypeVar("Answer")
_POLL_MS: Final = 100
_SHORT_POLL_MS: Final = 10
_ASK_MS: Final = 2_000
_CLOSE_MS: Final = 2_000
_WARN_S: Final = 10.0
_COMMIT_TRIES: Final = 5


@dataclass(slots=True)
class _Reading:
    """A partition that is read: `base` is what the last commit says, `polled` what came since."""

    store_topic: str
    partitions: int
    topic_id: str | None
    base: int | None
    polled: list[Any] = field(default_factory=list)


class KafkaToStore:
    """One run of a bridge into a store."""

    def __init__(self, options: BridgeOptions, stop: StopRequest) -> None:
        self._options, self._stop = options, stop
        self._run_id = uuid.uuid4().hex
        self.summary = BridgeSummary(options.direction, options.bridge_id)
        self._reading: dict[Any, _Reading] = {}
        self._bytes = self._rows = self._turn = 0
        self._since: float | None = None
        self._commit: Future[CommitOutcome] | None = None
        self._in_commit: list[tuple[Any, PartitionPart]] = []
        self._of_commit: dict[Any, _Reading] = {}
        self._paused = False
        self._targets: dict[Any, int] | None = None
        self._warned = float("-inf")

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
            self._port = port
            with self._stop.may_end():
                self._consumer, _ = clients.consumer(options, **self._consumer_options())
            at_last.callback(self._close_consumer)
            worker = at_last.enter_context(ThreadPoolExecutor(1, "bridge-commit"))
            self._worker = worker
            with self._stop.may_end():
                kind = GroupAssignment if options.shared else ManualAssignment
                self._assignment = kind(options, self._consumer, port)
            port.begin()  # Kafka is there, and so are the topics
            last = port.last_commit(options.sink_id)
            self.summary.progress = {} if last is None else offsets_alone(last.progress)
            self._encoder = PartEncoder(port.config, options)
            with self._stop.may_end():
                self._follow_assignment({})
            self._copy()
        self.summary.stopped = self._stop.signal_name
        return self.summary

    def _consumer_options(self) -> dict[str, Any]:
        options = self._options
        return {"group_id": options.group_id, "metadata_max_age_ms": options.discover_ms}

    def _close_consumer(self) -> None:
        with contextlib.suppress(Exception):  # it is only left; what was copied is in the store
            self._consumer.close(autocommit=False, timeout_ms=_CLOSE_MS)

    # -- the loop

    def _copy(self) -> None:
        with contextlib.suppress(StoppedError):
            self._copy_on()
        self._reap(wait=True)
        if not self._stop.asked.is_set():
            self._look_at_lag()

    def _copy_on(self) -> None:
        while not self._stop.asked.is_set():
            polled = self._poll()
            self._follow_assignment(polled)
            self._take(polled)
            self._reap(wait=False)
            self._back_off()
            if self._is_due():
                self._submit()
            if self._commit is None and self._is_caught_up():
                self.summary.caught_up = True
                break
            if self.summary.tell_due():
                self._look_at_lag()
                self.summary.tell()

    def _poll(self) -> dict[Any, list[Any]]:
        from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError, RetriableError

        try:
            # then something else may be due soon; but a group is not joined within such short polls
            waiting = not self._options.shared and (self._commit is not None or self._bytes)
            found: dict[Any, list[Any]] = self._consumer.poll(_SHORT_POLL_MS if waiting else _POLL_MS)
            return found
        except OffsetOutOfRangeError as error:
            self._lost(error.args[0] if error.args else {})
        except LogTruncationError as error:
            self._lost({tp: self._consumer.position(tp, timeout_ms=0) for tp in error.divergent_offsets})
        except RetriableError as error:  # a broker that is away; what was handed out before is not touched by it
            if time.monotonic() - self._warned > _WARN_S:
                self._warned = time.monotonic()
                warn(str(clients.as_bridge_error(self._options, error)))
        except KafkaError as error:
            raise clients.as_bridge_error(self._options, error) from None
        except (RuntimeError, ValueError) as error:
            raise KafkaRefusedError(self._options.client.hide(f"kafka-python failed: {error!r}")) from None
        return {}

    def _follow_assignment(self, polled: dict[Any, list[Any]]) -> None:
        """Partitions that came, and that went: what was polled of those is dropped, whoever has them reads it again.

        A partition that came is begun here, in the thread that polls: what this poll gave of it may be of before.
        """
        with self._stop.may_end():
            came, went = self._assignment.changes()
        for tp in went:
            self._drop(tp)
        for tp, place in came.items():
            self._drop(tp)
            polled.pop(tp, None)
            self._reading[tp] = _Reading(place.store_topic, place.partitions, place.topic_id, place.base)
            if tp in self._consumer.assignment():  # else it is gone again: that will be told next
                begin(self._consumer, tp, place.base, latest=place.latest)
                if self._paused:
                    self._consumer.pause(tp)
        begun: dict[tuple[str, str], dict[str, int | None]] = {}
        for tp, place in came.items():
            begun.setdefault((tp.topic, place.store_topic), {})[str(tp.partition)] = place.base
        for names, offsets in sorted(begun.items()):
            self.summary.tell_begun(*names, offsets)
        if came and self._options.until_caught_up and self._targets is not None:
            self._targets |= self._ends([tp for tp in came if tp in self._reading])

    def _drop(self, tp: Any) -> None:
        gone = self._reading.pop(tp, None)
        if gone is not None:
            self._bytes -= size_of({tp: gone.polled})
            self._rows -= count_of(gone.polled)

    def _take(self, polled: dict[Any, list[Any]]) -> None:
        for tp, batches in polled.items():
            reading = self._reading.get(tp)
            if reading is not None and batches:
                reading.polled += batches
                self._bytes += size_of({tp: batches})
                self._rows += count_of(batches)
                self._since = self._since or time.monotonic()

    def _back_off(self) -> None:
        full = self._commit is not None and self._is_enough()
        if full == self._paused:
            return
        self._paused = full
        assigned = self._consumer.assignment()
        if assigned:
            (self._consumer.pause if full else self._consumer.resume)(*assigned)

    # -- commits

    def _is_due(self) -> bool:
        """Whether there is enough to commit, or it waited for long enough, or Kafka has no more at the moment."""
        if self._commit is not None:
            return False
        options = self._options
        if any(one.base is None for one in self._reading.values()):
            return True  # where a partition was begun has to be known, or `latest` would move
        if self._since is None:
            return False
        waited = time.monotonic() - self._since
        return self._is_enough() or waited * 1000 >= options.commit_interval_ms

    def _is_enough(self) -> bool:
        """Whether a whole commit waits."""
        return self._bytes >= self._options.max_batch_bytes or self._rows >= self._options.max_batch_rows

    def _submit(self, *, progress_alone: bool = False) -> None:
        """Hand what was polled to the worker, as much of it as one commit may have."""
        self._check_ids()
        parts: list[tuple[Any, PartitionPart, list[Any]]] = []
        rows, room = self._options.max_batch_rows, self._options.max_batch_bytes
        for tp, reading in self._in_turn():
            batches, reading.polled = cut(reading.polled, rows, room)
            if reading.polled and not batches:
                continue
            if batches:
                following: int | None = batches[-1].offset + 1
            else:
                following = self._position(tp) if reading.base is None or progress_alone else None
            if following is None or following == reading.base:
                continue
            rows -= count_of(batches)
            room -= size_of({tp: batches})
            part = PartitionPart(
                tp.topic,
                tp.partition,
                reading.store_topic,
                reading.partitions,
                reading.base,
                following,
                (),
                reading.topic_id,
            )
            parts.append((tp, part, batches))
        self._bytes = sum(size_of({tp: one.polled}) for tp, one in self._reading.items())
        self._rows = sum(count_of(one.polled) for one in self._reading.values())
        self._since = time.monotonic() if self._bytes else None
        if parts:
            self._in_commit = [(tp, part) for tp, part, _ in parts]
            self._of_commit = {tp: self._reading[tp] for tp, _, _ in parts}
            self._commit = self._worker.submit(self._commit_parts, [(part, batches) for _, part, batches in parts])

    def _in_turn(self) -> list[tuple[Any, _Reading]]:
        """All partitions, another one first each time: who is first may take all the room that there is."""
        every = list(self._reading.items())
        self._turn += 1
        first = self._turn % max(len(every), 1)
        return every[first:] + every[:first]

    def _check_ids(self) -> None:
        """TopicReplacedError where Kafka has told of another topic of a name since its partitions were begun."""
        begun = {tp.topic: reading.topic_id for tp, reading in self._reading.items()}
        for topic, now in ids_of(self._consumer, begun).items():
            check_same_topic(topic, begun[topic], now, self._options.bridge_id)

    def _position(self, tp: Any) -> int | None:
        """The offset behind everything that was polled, marks of transactions too; None where it is not known yet."""
        from kafka.errors import KafkaError

        try:
            position: int | None = self._consumer.position(tp, timeout_ms=0)
            return position
        except KafkaError:
            return None

    def _commit_parts(self, parts: list[tuple[PartitionPart, list[Any]]]) -> CommitOutcome:
        """In the worker: decode, encode, and only then take the store's lock."""
        encoded = []
        for part, batches in parts:
            try:
                rows = list(rows_of(part.topic, part.partition, batches))
            except BrokenBatchError as error:
                raise KafkaRefusedError(f"{part.topic} partition {part.partition}: {error}") from error
            encoded.append(self._encoder.encode(replace(part, rows=rows)))
        for attempt in range(_COMMIT_TRIES):
            with self._port.opened() as store:
                try:
                    return commit_parts(store, self._options, self._run_id, encoded)
                except ProgressMovedError:
                    if attempt + 1 == _COMMIT_TRIES:
                        raise
        raise AssertionError("unreachable")

    def _reap(self, *, wait: bool) -> None:
        """Note what a finished commit did."""
        if self._commit is None or not (wait or self._commit.done()):
            return
        outcome, self._commit = self._commit.result(), None
        summary = self.summary
        summary.rows += outcome.rows - outcome.quarantined
        summary.quarantined += outcome.quarantined
        summary.batches += bool(outcome.rows)
        summary.progress = outcome.progress
        if outcome.newest_ms:
            summary.lag_ms = max(clients.now_ms() - outcome.newest_ms, 0)
        for tp, part in self._in_commit:
            reading = self._reading.get(tp)
            if part.key in outcome.committed and reading is self._of_commit.get(tp) and reading is not None:
                reading.base = part.following  # not of a partition that was begun anew meanwhile
        if outcome.stale:
            self._superseded(outcome.stale)
        self._inform(outcome.committed)

    def _superseded(self, stale: dict[Partition, int]) -> None:
        """Another bridge of this id committed messages of a partition: read it from there, or end."""
        if not self._options.shared:
            topic, partition = next(iter(stale))
            raise FencedBridgeError(
                f"bridge {self._options.bridge_id}: another bridge with this id copied {topic} partition {partition} "
                "meanwhile; run one, give another --id, or let them --share"
            )
        for tp, part in self._in_commit:
            reading = self._reading.get(tp)
            if part.key in stale and reading is not None:
                self._drop(tp)
                base = None if stale[part.key] < 0 else stale[part.key]
                self._reading[tp] = _Reading(part.store_topic, part.partitions, part.topic_id, base)
                begin(self._consumer, tp, base, latest=False)

    def _inform(self, committed: dict[Partition, int]) -> None:
        """Tell the consumer group, for lag tools; whether that works changes nothing."""
        from kafka import TopicPartition
        from kafka.errors import KafkaError
        from kafka.structs import OffsetAndMetadata

        offsets = {
            TopicPartition(*key): OffsetAndMetadata(offset, "", -1)
            for key, offset in committed.items()
            if TopicPartition(*key) in self._reading
        }
        if offsets:
            with contextlib.suppress(KafkaError):
                self._consumer.commit_async(offsets, callback=_ignore)

    # -- ends

    def _ends(self, partitions: list[Any]) -> dict[Any, int]:
        return self._ask(lambda: self._consumer.end_offsets(partitions, timeout_ms=_ASK_MS))

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """An answer of Kafka; asked again for a minute where it is away, as it may be while a bridge runs."""
        deadline = time.monotonic() + clients.GIVE_UP_S
        while True:
            try:
                with self._stop.may_end(), clients.kafka_errors(self._options):
                    return question()
            except KafkaUnreachableError as error:
                if time.monotonic() > deadline:
                    raise
                warn(f"{error}; asking again")

    def _is_caught_up(self) -> bool:
        """Whether all is committed that was there when this was asked first."""
        if not self._options.until_caught_up or not self._assignment.is_complete():
            return False
        if self._targets is None:
            self._targets = self._ends(list(self._reading))
        for tp, target in self._targets.items():
            reading = self._reading.get(tp)
            if reading is not None and (reading.base is None or reading.base < target):
                position = self._position(tp)
                if not reading.polled and position is not None and position >= target:
                    self._submit(progress_alone=True)  # what is behind the last message: marks of transactions
                return False
        return True

    def _look_at_lag(self) -> None:
        behind = 0
        for tp, reading in self._reading.items():
            end = self._consumer.highwater(tp)
            if end is not None and reading.base is not None:
                behind += max(end - reading.base, 0)
        self.summary.lag_messages = behind
        if not behind:
            self.summary.lag_ms = 0

    def _lost(self, out_of_range: dict[Any, int]) -> None:
        """Kafka does not have what comes next: DataLossError, or on from what it has."""
        self._reap(wait=True)
        self._ask(self._consumer.topics)  # and their ids, as Kafka has them now
        self._check_ids()
        self._follow_assignment({})  # which tells of partitions that have just come whether they fit
        low = self._ask(lambda: self._consumer.beginning_offsets(list(out_of_range), timeout_ms=_ASK_MS))
        high = self._ends(list(out_of_range))
        for tp, offset in out_of_range.items():
            if low[tp] <= (offset or 0) <= high[tp]:
                self._consumer.seek(tp, offset)  # it is there again: a replica was behind
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
            self._consumer.seek(tp, go_on)


def _ignore(offsets: Any, response: Any) -> None:
    """An answer that changes nothing."""
