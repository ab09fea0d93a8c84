"""Topics that are written to: how many partitions they have, and how long a message may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.kafka import clients
from rocketflow.kafka.errors import TopicMissingError

if TYPE_CHECKING:
    from rocketflow.kafka.options import BridgeOptions

_OVERHEAD: Final = 512
"""Bytes of a batch that are no message's."""


class TargetTopics:
    """Asks once a topic; makes those that are missing where it may."""

    def __init__(self, options: BridgeOptions) -> None:
        self._options = options
        self._partitions: dict[str, int] = {}
        self._most: dict[str, int] = {}

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

    def max_message_bytes(self, topic: str) -> int:
        """How long a message may be, for the topic and for the client."""
        if topic not in self._most:
            self._look(topic, 1)
        return self._most[topic]

    def _look(self, topic: str, at_least: int) -> None:
        admin = clients.admin(self._options)
        try:
            with clients.kafka_errors(self._options):
                if topic not in set(admin.list_topics()):
                    self._create(admin, topic, at_least)
                found = admin.describe_topics([topic])[0]
                self._partitions[topic] = len(found["partitions"])
                self._most[topic] = min(_max_message_bytes(admin, topic), self._client_limit()) - _OVERHEAD
        finally:
            admin.close()

    def _create(self, admin: Any, topic: str, at_least: int) -> None:
        if not self._options.create_topics and topic != self._options.quarantine_topic:
            raise TopicMissingError(
                f"Kafka at {self._options.bootstrap} has no topic {topic}; make it, or give --create-topics"
            )
        admin.create_topics({topic: {"num_partitions": at_least, "replication_factor": -1}})
        admin.wait_for_topics([topic])

    def _client_limit(self) -> int:
        from kafka import KafkaConsumer, KafkaProducer

        given = self._options.client.for_client(KafkaProducer.DEFAULT_CONFIG, KafkaConsumer.DEFAULT_CONFIG)
        return int(given.get("max_request_size", clients.MAX_REQUEST_BYTES))


def _max_message_bytes(admin: Any, topic: str) -> int:
    from kafka.admin import ConfigResource, ConfigResourceType

    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all")
    return _find(answer, "max.message.bytes", 1 << 20)


def _find(answer: Any, name: str, default: int) -> int:
    """A number in the administrator's nested answer."""
    if isinstance(answer, dict):
        if name in answer:
            value = answer[name]
            return int(value["value"] if isinstance(value, dict) else value)
        answer = list(answer.values())
    if isinstance(answer, (list, tuple)):
        for one in answer:
            found = _find(one, name, -1)
            if found >= 0:
                return found
    return default
