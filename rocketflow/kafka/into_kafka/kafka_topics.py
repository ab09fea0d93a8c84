"""Topics that are written to: how many partitions they have, and which messages they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import TopicMissingError
from rocketflow.kafka.shared.record_sizes import batch_size, client_size
from rocketflow.kafka.shared.topic_record import id_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow.kafka.shared.record_sizes import Header

_FOREVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Which messages a topic takes: record batches of so many bytes, with a key where it is compacted, of times around
    now (ms); and how many bytes the client sends."""

    topic_bytes: int
    client_bytes: int
    needs_keys: bool = False
    before_ms: int = _FOREVER
    after_ms: int = _FOREVER

    @property
    def max_bytes(self) -> int:
        """The least of what both allow."""
        return min(self.topic_bytes, self.client_bytes)

    def why_not_of(self, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> str | None:
        """Why the topic, or the client, takes no message with these parts; None where both do."""
        if key is None and self.needs_keys:
            return "it has no key, which a compacted topic asks for"
        size = batch_size(key, value, headers)
        if size > self.topic_bytes:
            most = self.topic_bytes
            return f"{size} bytes as a record batch before compression, the topic's max.message.bytes is {most}"
        size = client_size(key, value, headers)
        if size > self.client_bytes:
            return f"{size} bytes before compression, the client's max_request_size is {self.client_bytes}"
        return None

    def why_not_at(self, stamp: int | None, now_ms: int) -> str | None:
        """Why the topic takes no message of this time; None where it does."""
        if stamp is None or -self.before_ms <= stamp - now_ms <= self.after_ms:
            return None
        side = "after" if stamp > now_ms else "before"
        return f"its time is {stamp} ms, the topic's message.timestamp.{side}.max.ms does not allow that"


class TargetTopics:
    """Asks once a topic; makes those that are missing where it may."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, str | None] = {}
        self._limits: dict[str, TopicLimits] = {}

    def partitions(self, topic: str, at_least: int) -> int:
        """How many partitions a topic has.

        TopicMissingError where there is none and none may be made, UsageError where there are too few.
        """
        if self._partitions.get(topic, 0) < at_least:
            self._look(topic, at_least)
        found = self._partitions[topic]
        if found < at_least:
            raise UsageError(
                f"Kafka topic {topic} has {found} partitions, the store's topic at least {at_least} queues; add "
                "partitions, or choose them by key (--by-key)"
            )
        return found

    def check_there(self, topics: Iterable[str]) -> None:
        """TopicMissingError for topics that are not there and may not be made, all of them at once; makes nothing."""
        admin = clients.admin(self._options)
        try:
            with clients.kafka_errors(self._options):
                there = set(admin.list_topics())
        finally:
            admin.close()
        missing = sorted(set(topics) - there)
        if missing and not self._options.create_topics:
            raise self._missing(missing)

    def id_of(self, topic: str) -> str | None:
        """The id of a topic that was asked for, None where the broker has none."""
        return self._ids.get(topic)

    def limits(self, topic: str) -> TopicLimits:
        """What the topic, and the client, take."""
        if topic not in self._limits:
            self._look(topic, 1)
        return self._limits[topic]

    def _look(self, topic: str, at_least: int) -> None:
        admin = clients.admin(self._options)
        try:
            with clients.kafka_errors(self._options):
                if topic not in set(admin.list_topics()):
                    self._create(admin, topic, at_least)
                found = admin.describe_topics([topic])[0]
                self._partitions[topic] = len(found["partitions"])
                self._ids[topic] = id_text(found.get("topic_id"))
                self._limits[topic] = _limits(admin, topic, self._client_limit())
        finally:
            admin.close()

    def _create(self, admin: Any, topic: str, at_least: int) -> None:
        if not self._options.create_topics and topic != self._options.quarantine_topic:
            raise self._missing([topic])
        admin.create_topics({topic: {"num_partitions": at_least, "replication_factor": -1}})
        admin.wait_for_topics([topic])

    def _missing(self, topics: Sequence[str]) -> TopicMissingError:
        return TopicMissingError(
            f"Kafka at {self._options.bootstrap} has no topic {', '.join(topics)}; make it, or give --create-topics"
        )

    def _client_limit(self) -> int:
        from kafka import KafkaConsumer, KafkaProducer

        given = self._options.client.for_client(KafkaProducer.DEFAULT_CONFIG, KafkaConsumer.DEFAULT_CONFIG)
        return int(given.get("max_request_size", clients.MAX_REQUEST_BYTES))


def _limits(admin: Any, topic: str, client_bytes: int) -> TopicLimits:
    from kafka.admin import ConfigResource, ConfigResourceType

    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    most = int(_find(answer, "max.message.bytes") or 1 << 20)
    compacted = "compact" in (_find(answer, "cleanup.policy") or "")
    if _find(answer, "message.timestamp.type") == "LogAppendTime":
        return TopicLimits(most, client_bytes, compacted)
    window = (int(_find(answer, f"message.timestamp.{side}.max.ms") or _FOREVER) for side in ("before", "after"))
    return TopicLimits(most, client_bytes, compacted, *window)


def _find(answer: Any, name: str) -> str | None:
    """A value in the administrator's nested answer."""
    if isinstance(answer, dict):
        if name in answer:
            value = answer[name]
            return str(value["value"] if isinstance(value, dict) else value)
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for one in answer:
            found = _find(one, name)
            if found is not None:
                return found
    return None
