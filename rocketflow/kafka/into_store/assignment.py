"""Partition assignment of a bridge: all partitions of its topics, or those that its consumer group assigns.

Either way each partition starts at the offset in the store's last envelope; the group's offsets are never read.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rocketflow.errors import UsageError
from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import KafkaUnreachableError, TopicMissingError
from rocketflow.kafka.into_store.store_commit import next_offset
from rocketflow.kafka.options.bridge_options import QUARANTINE
from rocketflow.kafka.shared.claims import Pair, refuse_claimed
from rocketflow.kafka.shared.run_state import warn
from rocketflow.kafka.shared.topic_record import TopicNote, check_note, check_same_topic, ids_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rocketflow.kafka.into_store.store_port import StorePort
    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow.kafka.shared.claims import Claim


@dataclass(frozen=True, slots=True)
class Place:
    """The target of a partition's messages, and the offset to start at.

    `base` is None if no commit exists: then reading starts at the log's begin, or with `latest` at its end.
    `topic_id` is None if the broker has no topic ids.
    """

    store_topic: str
    partitions: int
    topic_id: str | None
    base: int | None
    latest: bool = False


class _Topics:
    """The topics of a bridge and their partitions, refreshed periodically."""

    def __init__(self, options: BridgeOptions, consumer: Any) -> None:
        self._options, self._consumer = options, consumer
        self.names: dict[str, str] = {}
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, str | None] = {}
        self._looked: float | None = None

    def refresh(self) -> dict[str, set[int]] | None:
        """Return {Kafka topic: partitions}; None before `discover_ms` have passed, or while Kafka does not answer.

        Raises: TopicMissingError if a named topic is missing, TopicReplacedError if a topic was recreated.
        """
        now = time.monotonic()
        if self._looked is not None and (now - self._looked) * 1000 < self._options.discover_ms:
            return None
        first, self._looked = self._looked is None, now
        try:
            with clients.kafka_errors(self._options):
                found, missing = self._options.choice.of_kafka(self._consumer.topics())
                partitions = {topic: set(self._consumer.partitions_for_topic(topic)) for topic in found}
        except KafkaUnreachableError as error:
            if first:
                raise
            warn(f"{error}; waiting for it")
            return None
        if missing:
            raise TopicMissingError(f"Kafka at {self._options.bootstrap} has no topic {', '.join(missing)}")
        self._check_quarantine(found)
        if first and not found:
            warn("no topic matches yet")
        self._note_ids(found)
        self.names = found
        self._partitions = {topic: max(ids, default=-1) + 1 for topic, ids in partitions.items()}
        return partitions

    def place(self, topic: str, base: int | None, *, latest: bool = False) -> Place:
        """Return the place of a partition of `topic` that starts at `base`."""
        return Place(self.names[topic], self._partitions[topic], self._ids[topic], base, latest)

    def next_offsets(self, progress: Mapping[str, Any]) -> dict[Any, int | None]:
        """Return the next offset of every partition in an envelope's progress, None where it has none."""
        from kafka import TopicPartition

        return {
            TopicPartition(topic, one): next_offset(progress, topic, one)
            for topic, count in self._partitions.items()
            for one in range(count)
        }

    def check(self, progress: Mapping[str, Any], topics: Iterable[str], claims: Callable[[], list[Claim]]) -> None:
        """Refuse topics that contradict an envelope's notes, and new topics that another bridge has copied.

        See `topic_record.check_note` and `claims.refuse_claimed` for the errors.
        """
        wanted = sorted(set(topics))
        for topic in wanted:
            now = TopicNote(self._ids[topic], self._options.queues)
            check_note(progress, topic, now, self._options.bridge_id)
        new = [Pair(topic, self.names[topic], self._ids[topic]) for topic in wanted if topic not in progress]
        if new and not self._options.restart:
            refuse_claimed(self._options.bridge_id, new, claims())

    def _note_ids(self, topics: Iterable[str]) -> None:
        now = ids_of(self._consumer, topics)
        for topic, known in self._ids.items():
            check_same_topic(topic, known, now.get(topic), self._options.bridge_id)
        self._ids = now

    def _check_quarantine(self, found: Mapping[str, str]) -> None:
        """Raise UsageError if messages are copied to the quarantine topic."""
        quarantine = self._options.quarantine_topic
        into = [kafka for kafka, store in found.items() if store == quarantine]
        if into and self._options.on_refused == QUARANTINE:
            raise UsageError(
                f"--quarantine-topic {quarantine}: Kafka topic {', '.join(into)} is copied to it; give another one, or "
                f"--map {into[0]}=NAME"
            )


class ManualAssignment:
    """Assigns all partitions of all topics to this bridge, new ones as they are found."""

    def __init__(self, options: BridgeOptions, consumer: Any, port: StorePort) -> None:
        self._options, self._consumer, self._port = options, consumer, port
        self._topics = _Topics(options, consumer)
        self._assigned: set[Any] = set()
        self._found: dict[str, set[int]] | None = self._topics.refresh()
        self._looked = self._begun = False

    def changes(self) -> tuple[dict[Any, Place], list[Any]]:
        """Return (partitions assigned, partitions revoked) since the last call."""
        from kafka import TopicPartition

        found, self._found = self._topics.refresh() if self._found is None else self._found, None
        if found is None:
            return {}, []
        self._looked = True
        wanted = {TopicPartition(topic, one) for topic, ids in found.items() for one in ids}
        came, went = sorted(wanted - self._assigned), sorted(self._assigned - wanted)
        if not came and not went:
            return {}, []
        last = self._port.last_commit(self._options.sink_id)
        self._topics.check({} if last is None else last.progress, (tp.topic for tp in came), self._port.claims)
        self._consumer.assign(sorted(wanted))
        self._assigned = wanted
        latest = self._options.start == "latest" and last is None and not self._begun
        self._begun = True
        places = {}
        for tp in came:
            base = None if last is None else next_offset(last.progress, tp.topic, tp.partition)
            places[tp] = self._topics.place(tp.topic, base, latest=latest)
        return places, went

    def is_complete(self) -> bool:
        """Return True once the partitions to read are known."""
        return self._looked

    def waiting(self) -> dict[Any, int | None]:
        """Return no partitions: none waits for a group."""
        return {}


class GroupAssignment:
    """Follows the assignment of a consumer group, through which several bridges of one id share the partitions."""

    def __init__(self, options: BridgeOptions, consumer: Any, port: StorePort) -> None:
        self._options, self._consumer, self._port = options, consumer, port
        self._topics = _Topics(options, consumer)
        self._lock = threading.Lock()
        self._came: dict[Any, Place] = {}
        self._went: list[Any] = []
        self._joined, self._waits = False, True
        self._is_complete = False
        self._found: dict[str, set[int]] | None = self._topics.refresh()
        self._subscribed: set[str] = set()
        self._progress: Mapping[str, Any] = {}

    def changes(self) -> tuple[dict[Any, Place], list[Any]]:
        """Return (partitions assigned, partitions revoked) since the last call."""
        found, self._found = self._topics.refresh() if self._found is None else self._found, None
        if found is not None and set(found) != self._subscribed:
            self._subscribed = set(found)
            self._consumer.subscribe(topics=sorted(found), listener=_listener(self))
        with self._lock:
            came, went = self._came, self._went
            self._came, self._went = {}, []
            self._is_complete = self._joined
        self._topics.check(self._progress, (tp.topic for tp in came), self._port.claims)
        return came, went

    def is_complete(self) -> bool:
        """Return True once the last call of `changes` has returned what the group has assigned to this bridge."""
        return self._is_complete

    def waiting(self) -> dict[Any, int | None]:
        """Return all partitions and their next offsets in the store, while this bridge waits for the group.

        The group assigns none until all its members have joined again, or are taken for dead.
        """
        if not self._waits:
            return {}
        last = self._port.last_commit(self._options.sink_id)
        return self._topics.next_offsets({} if last is None else last.progress)

    def assigned(self, partitions: list[Any]) -> None:
        """Seek each partition to the offset in the store's last envelope. Runs in the consumer's thread."""
        last = self._port.last_commit(self._options.sink_id)
        with self._lock:
            self._joined, self._waits = True, False
            self._progress = {} if last is None else last.progress
            for tp in partitions:
                base = None if last is None else next_offset(last.progress, tp.topic, tp.partition)
                begin(self._consumer, tp, base, latest=False)  # or the client would fetch the group's offsets
                self._came[tp] = self._topics.place(tp.topic, base)
                if tp in self._went:
                    self._went.remove(tp)

    def revoked(self, partitions: list[Any]) -> None:
        """Give up partitions that now belong to another bridge. Runs in the consumer's thread."""
        with self._lock:
            self._waits = True
            for tp in partitions:
                self._came.pop(tp, None)
                self._went.append(tp)


def begin(consumer: Any, tp: Any, base: int | None, *, latest: bool) -> None:
    """Seek a partition to `base`, or without one to the end of its log (`latest`) or its begin."""
    if base is not None:
        consumer.seek(tp, base)
    elif latest:
        consumer.seek_to_end(tp)
    else:
        consumer.seek_to_beginning(tp)


def _listener(assignment: GroupAssignment) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            assignment.revoked(list(revoked))

        def on_partitions_assigned(self, assigned: list[Any]) -> None:
            assignment.assigned(list(assigned))

        def on_partitions_lost(self, lost: list[Any]) -> None:
            assignment.revoked(list(lost))

    return Listener()
