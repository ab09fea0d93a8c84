"""`config/topics.json`: the topics of a store."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from msgspec.structs import replace

from rocketflow_store.files.json_fields import object_field
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import MAX_QUEUE_NUMS, validate_topic
from rocketflow_store.tables.table_row import entry_of, row_of
from rocketflow_store.tables.topic_config import TopicConfig

PERM_PRIORITY: Final = 8
"""Topics that a broker makes by its own, its cluster's and its template's name have it; those of users do not."""


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
        topics = {name: row_of(TopicConfig, {"topicName": name, **object_field(table, name)}) for name in table}
        for one in topics.values():
            if one.read_queue_nums < 0 or one.write_queue_nums < 0:
                raise ValueError(f"readQueueNums or writeQueueNums of topic {one.topic_name} is negative")
        self._topics = topics

    def members(self) -> dict[str, Any]:
        return {"topicConfigTable": {name: entry_of(config) for name, config in self._topics.items()}}


def _check(config: TopicConfig) -> None:
    validate_topic(config.topic_name)
    for name, value in (("readQueueNums", config.read_queue_nums), ("writeQueueNums", config.write_queue_nums)):
        if not 0 <= value <= MAX_QUEUE_NUMS:
            raise StoreConfigError(name, value, f"must be between 0 and {MAX_QUEUE_NUMS}")
    if not 0 <= config.perm < 2 * PERM_PRIORITY:
        raise StoreConfigError("perm", config.perm, "is a sum of 8 priority, 4 read, 2 write, 1 inherit")
