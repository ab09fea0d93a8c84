"""Topics of a store that is open for writing: creation, growth, deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files.open_files import OPEN_FILES
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import is_directory_name, is_system_topic
from rocketflow_store.recovery.topic_deletion import begin_deletion, finish_deletions
from rocketflow_store.tables.topic_config import QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rocketflow_store.engine.durability import Durability
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.tables.topic_config import TopicConfig


class TopicAdmin:
    """Changes to the topics of one store."""

    def __init__(
        self, parts: StoreParts, durability: Durability, dispatch_lock: AbstractContextManager[object]
    ) -> None:
        self._parts, self._topics = parts, parts.topics
        self._durability, self._dispatch_lock = durability, dispatch_lock

    def queue_count(self, topic: str) -> int:
        """Return the number of write queues of a topic; a new topic is created with the default number."""
        return self._topics.queue_count(topic)

    def ensure(self, topic: str, queues: int | None) -> None:
        """Create the topic, with `queues` queues (or the default number), if it does not exist."""
        if not self._topics.exists(topic):
            self._topics.ensure(topic, queues or self._parts.config.default_topic_queue_nums)

    def one_write(self) -> AbstractContextManager[None]:
        """Write the topics that a block creates or extends together, at its end."""
        return self._topics.one_write()

    def create(self, topic: str, queues: int, queue_type: str | None) -> None:
        """Create a topic, or raise the number of queues of an existing one; the caller has the put lock."""
        self._topics.ensure(topic, queues)
        if queue_type is not None:
            in_use = self._is_in_use(topic, self._topics.queue_count(topic))
            self._topics.set_queue_type(topic, queue_type, in_use=in_use)

    def changes_type(self, config: TopicConfig) -> bool:
        """Return True if `config` gives a topic another `queue.type` than it has."""
        return config.is_batch_cq != self._topics.is_batch_cq(config.topic_name)

    def put(self, *configs: TopicConfig) -> None:
        """Create or replace topics by one write; the caller has the put lock if one `changes_type`.

        Raises:
            StoreConfigError: A name or a number is not allowed, or a topic has messages of the other `queue.type`.
            DescriptorLimitError: A topic is new, and no descriptor is left for its files.
        """
        for config in configs:
            topic = config.topic_name
            if self.changes_type(config) and self._is_in_use(topic, config.write_queue_nums):
                kind = config.attributes.get(QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ)
                raise StoreConfigError(QUEUE_TYPE_ATTRIBUTE, kind, f"topic {topic} has messages of the other type")
            if not self._topics.exists(topic):
                OPEN_FILES.check_new(f"topic {topic}")
        self._parts.config_files.topics.put(*configs)
        for config in configs:
            self._topics.forget(config.topic_name)

    def _is_in_use(self, topic: str, queues: int) -> bool:
        offsets = self._parts.offsets
        return self._parts.views.has_topic(topic) or any(offsets.next(topic, one) for one in range(queues))

    def set_queues(self, topic: str, queues: int) -> None:
        """Give a topic `queues` write queues, and read queues for every queue that it ever had."""
        self._parts.config_files.topics.set_queue_nums(topic, queues)

    def delete(self, topic: str) -> None:
        """Delete a topic after a flush; the caller has the put lock, and no clean-up runs.

        After a kill in between, the topic is unchanged or the next open completes the deletion; an error fences the
        store.
        """
        parts = self._parts
        try:
            with self._durability.forgetting(topic):
                begin_deletion(parts.paths, topic, parts.writer.commit_log.wrote_offset)
                self._forget(topic)
        except BaseException as error:
            parts.writer.fence.close_for(f"topic {topic} is half deleted ({error!r}); the next open finishes it")
            raise

    def _forget(self, topic: str) -> None:
        parts = self._parts
        with self._dispatch_lock:
            ids = parts.views.remove_topic(topic)
            finish_deletions(parts.paths, parts.config_files)
            parts.views.side_queues.forget(topic)
            self._topics.forget(topic)
            for queue_id in ids:
                parts.offsets.advance(topic, queue_id, -parts.offsets.next(topic, queue_id))


def check_deletable(topic: str) -> None:
    """Raise StoreConfigError for a topic of the store itself, and for an invalid topic name."""
    if is_system_topic(topic) or not is_directory_name(topic):
        raise StoreConfigError("topic", topic, "is not a topic that can be deleted")
