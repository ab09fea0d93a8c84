"""Which partitions a bridge reads: all of its topics, or those that the consumer group gives it.

Either way the store's envelope says where a partition goes on; what the group has noted is never asked.
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
    """Where a partition's messages go, and from which offset on.

    `base` is None where nothing was ever committed: then from the log's begin, or with `latest` from its end.
    `topic_id` is None where the broker has none.
    """

    store_topic: str
    partitions: int
    topic_id: str | None
    base: int | None
    latest: bool = False


class _Topics:
    """The topics of a bridge and their partitions, looked for again from time to time."""

    def __init__(self, options: BridgeOptions, consumer: Any) -> None:
        self._options, self._consumer = options, consumer
        self.names: dict[str, str] = {}
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, str | None] = {}
        self._looked: float | None = None

    def look(self) -> dict[str, set[int]] | None:
        """{Kafka topic: partitions}; None where it is not yet time to look again.

        TopicMissingError for a topic that was asked for by name and is not there, TopicReplacedError for one that is
        another than it was.
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
            warn(f"{error}; going on when it does")
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
        """Where messages of a topic go."""
        return Place(self.names[topic], self._partitions[topic], self._ids[topic], base, latest)

    def check(self, progress: Mapping[str, Any], topics: Iterable[str], claims: Callable[[], list[Claim]]) -> None:
        """Refuse topics that an envelope's notes do not fit, and new ones that another bridge has copied.

        See `topic_record.check_note` and `claims.refuse_claimed`.
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
        """Where refused messages go must be no topic that others are copied to."""
        quarantine = self._options.quarantine_topic
        into = [kafka for kafka, store in found.items() if store == quarantine]
        if into and self._options.on_refused == QUARANTINE:
            raise UsageError(
                f"--quarantine-topic {quarantine}: Kafka topic {', '.join(into)} is copied there; give refused "
                f"messages a topic of their own, or --map {into[0]}=NAME"
            )


class ManualAssignment:
    """All partitions of all topics, new ones when they are found: this bridge is alone."""

    def __init__(self, options: BridgeOptions, consumer: Any, port: StorePort) -> None:
        self._options, self._consumer, self._port = options, consumer, port
        self._topics = _Topics(options, consumer)
        self._assigned: set[Any] = set()
        self._found: dict[str, set[int]] | None = self._topics.look()
        self._looked = self._begun = False

    def changes(self) -> tuple[dict[Any, Place], list[Any]]:
        """(partitions that came, that went) since this was asked last."""
        from kafka import TopicPartition

        found, self._found = self._topics.look() if self._found is None else self._found, None
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
        """Whether it is known what is to be read."""
        return self._looked


class GroupAssignment:
    """What the consumer group gives: several bridges of one id divide the partitions among them."""

    def __init__(self, options: BridgeOptions, consumer: Any, port: StorePort) -> None:
        self._options, self._consumer, self._port = options, consumer, port
        self._topics = _Topics(options, consumer)
        self._lock = threading.Lock()
        self._came: dict[Any, Place] = {}
        self._went: list[Any] = []
        self._joined = False
        self._found: dict[str, set[int]] | None = self._topics.look()
        self._subscribed: set[str] = set()
        self._progress: Mapping[str, Any] = {}

    def changes(self) -> tuple[dict[Any, Place], list[Any]]:
        """(partitions that came, that went) since this was asked last."""
        found, self._found = self._topics.look() if self._found is None else self._found, None
        if found is not None and set(found) != self._subscribed:
            self._subscribed = set(found)
            self._consumer.subscribe(topics=sorted(found), listener=_listener(self))
        with self._lock:
            came, went = self._came, self._went
            self._came, self._went = {}, []
        self._topics.check(self._progress, (tp.topic for tp in came), self._port.claims)
        return came, went

    def is_complete(self) -> bool:
        """Whether the group has given this bridge its part."""
        return self._joined

    def given(self, partitions: list[Any]) -> None:
        """In the consumer's thread: read these from where the store's envelope says."""
        last = self._port.last_commit(self._options.sink_id)
        with self._lock:
            self._joined = True
            self._progress = {} if last is None else last.progress
            for tp in partitions:
                base = None if last is None else next_offset(last.progress, tp.topic, tp.partition)
                begin(self._consumer, tp, base, latest=False)  # so that nobody asks the group
                self._came[tp] = self._topics.place(tp.topic, base)
                if tp in self._went:
                    self._went.remove(tp)

    def taken(self, partitions: list[Any]) -> None:
        """In the consumer's thread: these are another bridge's now."""
        with self._lock:
            for tp in partitions:
                self._came.pop(tp, None)
                self._went.append(tp)


def begin(consumer: Any, tp: Any, base: int | None, *, latest: bool) -> None:
    """Read a partition from `base` on, or from an end of its log."""
    if base is not None:
        consumer.seek(tp, base)
    elif latest:
        consumer.seek_to_end(tp)
    else:
        consumer.seek_to_beginning(tp)


def _listener(assignment: GroupAssignment) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        """Hands on what the group says."""

        def on_partitions_revoked(self, revoked: list[Any]) -> None:
            assignment.taken(list(revoked))

        def on_partitions_assigned(self, assigned: list[Any]) -> None:
            assignment.given(list(assigned))

        def on_partitions_lost(self, lost: list[Any]) -> None:
            assignment.taken(list(lost))

    return Listener()
