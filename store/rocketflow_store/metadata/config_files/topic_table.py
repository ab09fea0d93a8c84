"""How many queues each topic has: `config/topics.json`, made on demand as a broker does."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from rocketflow_store.metadata.config_files.topics import BATCH_CQ, QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import check_topic, is_system_topic

if TYPE_CHECKING:
    from rocketflow_store.metadata.config_files import TopicsFile


class TopicTable:
    """Topics with their numbers of write queues."""

    def __init__(self, file: TopicsFile, default_queues: int) -> None:
        self._file = file
        self._default_queues = default_queues
        self._counts: dict[str, int] = {}
        self._lock = threading.RLock()
        self._batch_cq: dict[str, bool] = {}

    def queue_count(self, topic: str) -> int:
        """Write queues of `topic`; an unknown topic is made with the default number."""
        count = self._counts.get(topic)
        if count is None:
            check_topic(topic)
            with self._lock:
                known = self._file.get(topic)
                count = known.queues_to_write() if known else self._create(topic, self._default_queues)
                self._counts[topic] = count
        return count

    def exists(self, topic: str) -> bool:
        """Whether the topic is known."""
        return topic in self._counts or self._file.get(topic) is not None

    def ensure(self, topic: str, queues: int) -> None:
        """Have at least `queues` queues for `topic`."""
        if self._counts.get(topic, 0) >= queues:
            return
        check_topic(topic)
        with self._lock:
            known = self._file.get(topic)
            if known is None:
                self._counts[topic] = self._create(topic, max(queues, 1))
            elif known.write_queue_nums < queues:
                self._counts[topic] = self._create(topic, queues)
            else:
                self._counts[topic] = known.write_queue_nums

    def have_queue(self, topic: str, queue_id: int) -> None:
        """Make the topic where it is new, with the default number of queues, or more where `queue_id` asks for it.

        A store's own topics are kept out of the file, as a broker does.
        """
        if is_system_topic(topic) or queue_id < self._counts.get(topic, 0):
            return
        self.ensure(topic, max(self.queue_count(topic), queue_id + 1))

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        self._counts.pop(topic, None)
        self._batch_cq.pop(topic, None)

    def is_batch_cq(self, topic: str) -> bool:
        """Whether the topic's attribute `queue.type` says BatchCQ: its queues have one unit a batch."""
        known = self._batch_cq.get(topic)
        if known is None and not is_system_topic(topic):
            config = self._file.get(topic)
            known = config is not None and config.is_batch_cq
            if config is not None:
                self._batch_cq[topic] = known
        return bool(known)

    def set_queue_type(self, topic: str, queue_type: str, *, in_use: bool) -> None:
        """Give a topic its `queue.type`; StoreConfigError for another one, or once its queues are `in_use`."""
        if queue_type not in (SIMPLE_CQ, BATCH_CQ):
            raise StoreConfigError(QUEUE_TYPE_ATTRIBUTE, queue_type, f"must be {SIMPLE_CQ} or {BATCH_CQ}")
        config = self._file.get(topic)
        assert config is not None
        if config.attributes.get(QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ) == queue_type:
            return
        if in_use:
            raise StoreConfigError(QUEUE_TYPE_ATTRIBUTE, queue_type, f"topic {topic} has messages of the other type")
        self._file.put(replace(config, attributes={**config.attributes, QUEUE_TYPE_ATTRIBUTE: queue_type}))
        self._batch_cq.pop(topic, None)

    def _create(self, topic: str, queues: int) -> int:
        self._file.set_queue_nums(topic, queues)
        return queues
