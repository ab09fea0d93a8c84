"""`config/topics.json`: the topics of a store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rocketflow_store.files.json_fields import (
    bool_field,
    count_field,
    int32_field,
    object_field,
    text_field,
)
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.errors import MessageRejectedError, StoreConfigError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import MAX_QUEUE_NUMS, PERM_READ, PERM_READ_WRITE, PERM_WRITE, validate_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

PERM_PRIORITY: Final = 8
"""Topics that a broker makes by its own, its cluster's and its template's name have it; those of users do not."""

QUEUE_TYPE_ATTRIBUTE: Final = "queue.type"
SIMPLE_CQ: Final = "SimpleCQ"
BATCH_CQ: Final = "BatchCQ"

_KNOWN: Final = frozenset(
    {
        "attributes",
        "order",
        "perm",
        "readQueueNums",
        "topicFilterType",
        "topicName",
        "topicSysFlag",
        "writeQueueNums",
    }
)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """RocketMQ's TopicConfig; `extra` holds unknown members."""

    topic_name: str
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = PERM_READ_WRITE
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, name: str, entry: dict[str, Any]) -> TopicConfig:
        """Parse an entry; raise ValueError that names an invalid member."""
        attributes = object_field(entry, "attributes")
        return cls(
            topic_name=text_field(entry, "topicName", name),
            read_queue_nums=count_field(entry, "readQueueNums", 16),
            write_queue_nums=count_field(entry, "writeQueueNums", 16),
            perm=int32_field(entry, "perm", PERM_READ_WRITE),
            order=bool_field(entry, "order", False),
            topic_filter_type=text_field(entry, "topicFilterType", "SINGLE_TAG"),
            topic_sys_flag=int32_field(entry, "topicSysFlag", 0),
            attributes={key: text_field(attributes, key, "") for key in attributes},
            extra={key: value for key, value in entry.items() if key not in _KNOWN},
        )

    def queues_to_write(self) -> int:
        """Return the number of queues to spread messages over; raise MessageRejectedError if there is none."""
        if self.write_queue_nums < 1:
            why = f"topic {self.topic_name} has no queue to write to: give it some (writeQueueNums)"
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)
        return self.write_queue_nums

    def to_json(self) -> dict[str, Any]:
        entry = {
            **self.extra,
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }
        return dict(sorted(entry.items()))

    @property
    def is_batch_cq(self) -> bool:
        """True if the attribute `queue.type` is BatchCQ: the queues have one unit per batch."""
        return self.attributes.get(QUEUE_TYPE_ATTRIBUTE) == BATCH_CQ

    @property
    def readable(self) -> bool:
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        return bool(self.perm & PERM_WRITE)


class TopicsFile(JsonConfigFile):
    """Topics by name. Names are checked when set, not when read: a broker stores its host name here."""

    NAME: ClassVar[str] = "topics.json"
    _topics: dict[str, TopicConfig]

    def get(self, topic: str) -> TopicConfig | None:
        with self._guard:
            self._refresh()
            return self._topics.get(topic)

    def topics(self) -> dict[str, TopicConfig]:
        """Return all topics, with system topics."""
        with self._guard:
            self._refresh()
            return dict(self._topics)

    def put(self, *configs: TopicConfig) -> None:
        """Create or replace topics by one write; durable on return.

        Raises StoreConfigError for a name or numbers that RocketMQ refuses, with no topic changed.
        """
        for config in configs:
            _check(config)
        with self._guard:
            self._refresh()
            changed = {one.topic_name: one for one in configs if self._topics.get(one.topic_name) != one}
            if changed:
                self._topics = {**self._topics, **changed}
                self._persist()

    def set_queue_nums(self, topic: str, queue_nums: int) -> TopicConfig:
        """Set the number of write queues, and of read queues if it is lower; create the topic if it is new."""
        with self._guard:
            known = self.get(topic) or TopicConfig(topic, queue_nums, queue_nums)
            read_queue_nums = max(known.read_queue_nums, queue_nums)
            config = replace(known, read_queue_nums=read_queue_nums, write_queue_nums=queue_nums)
            self.put(config)
            return config

    def remove(self, topic: str) -> bool:
        """Remove a topic; return False if it did not exist."""
        with self._guard:
            self._refresh()
            if topic not in self._topics:
                return False
            self._topics = {name: config for name, config in self._topics.items() if name != topic}
            self._persist()
            return True

    def _adopt(self, document: dict[str, Any]) -> None:
        table = object_field(document, "topicConfigTable")
        topics = {}
        for name in table:
            topics[name] = TopicConfig.from_json(name, object_field(table, name))
        self._topics = topics

    def members(self) -> dict[str, Any]:
        return {"topicConfigTable": {name: config.to_json() for name, config in self._topics.items()}}


def _check(config: TopicConfig) -> None:
    validate_topic(config.topic_name)
    for name, value in (("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)):
        if not 0 <= value <= MAX_QUEUE_NUMS:
            raise StoreConfigError(name, value, f"must be between 0 and {MAX_QUEUE_NUMS}")
    if not 0 <= config.perm < 2 * PERM_PRIORITY:
        raise StoreConfigError("perm", config.perm, "is a sum of 8 priority, 4 read, 2 write, 1 inherit")
