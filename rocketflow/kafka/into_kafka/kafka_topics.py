"""The Kafka topics that a bridge writes to: their partitions, and the messages that they accept."""

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
    """The limits of a topic and of the client.

    The topic accepts record batches up to `topic_bytes`, only with a key if it is compacted (`needs_keys`), and with
    timestamps from `before_ms` before now to `after_ms` after now. The client sends requests up to `client_bytes`.
    """

    topic_bytes: int
    client_bytes: int
    needs_keys: bool = False
    before_ms: int = _FOREVER
    after_ms: int = _FOREVER

    @property
    def max_bytes(self) -> int:
        """The smaller of the two size limits."""
        return min(self.topic_bytes, self.client_bytes)

    def refusal_of_parts(self, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> str | None:
        """Return the reason why the topic or the client refuses a message with these parts; None if both accept it."""
        if key is None and self.needs_keys:
            return "it has no key, which a compacted topic requires"
        size = batch_size(key, value, headers)
        if size > self.topic_bytes:
            most = self.topic_bytes
            return f"{size} bytes as a record batch before compression, the topic's max.message.bytes is {most}"
        size = client_size(key, value, headers)
        if size > self.client_bytes:
            return f"{size} bytes before compression, the client's max_request_size is {self.client_bytes}"
        return None

    def refusal_of_time(self, stamp: int | None, now_ms: int) -> str | None:
        """Return the reason why the topic refuses a message with this timestamp (ms); None if it accepts it."""
        if stamp is None or -self.before_ms <= stamp - now_ms <= self.after_ms:
            return None
        side = "after" if stamp > now_ms else "before"
        return f"its timestamp is {stamp} ms, which the topic's message.timestamp.{side}.max.ms does not allow"


class TargetTopics:
    """Describes each topic once; creates missing topics if the options allow it."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self._partitions: dict[str, int] = {}
        self._ids: dict[str, str | None] = {}
        self._limits: dict[str, TopicLimits] = {}

    def partitions(self, topic: str, at_least: int) -> int:
        """Return the number of partitions of a topic.

        Raises: TopicMissingError if it is missing and may not be created, UsageError if it has too few partitions.
        """
        if self._partitions.get(topic, 0) < at_least:
            self._describe(topic, at_least)
        found = self._partitions[topic]
        if found < at_least:
            raise UsageError(
                f"Kafka topic {topic} has {found} partitions, but the store's topic has at least {at_least} queues; "
                "add partitions, or choose partitions by key (--by-key)"
            )
        return found

    def check_exist(self, topics: Iterable[str]) -> None:
        """Raise TopicMissingError naming all missing topics, unless they may be created. Creates nothing."""
        admin = clients.admin(self._options)
        try:
            with clients.kafka_errors(self._options):
                existing = set(admin.list_topics())
        finally:
            admin.close()
        missing = sorted(set(topics) - existing)
        if missing and not self._options.create_topics:
            raise self._missing(missing)

    def id_of(self, topic: str) -> str | None:
        """Return the id of a topic that was described; None if the broker has no topic ids."""
        return self._ids.get(topic)

    def limits(self, topic: str) -> TopicLimits:
        """Return the limits of the topic and of the client."""
        if topic not in self._limits:
            self._describe(topic, 1)
        return self._limits[topic]

    def _describe(self, topic: str, at_least: int) -> None:
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
            f"Kafka at {self._options.bootstrap} has no topic {', '.join(topics)}; create it, or give --create-topics"
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
    """Find a config value in the admin client's nested answer."""
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
