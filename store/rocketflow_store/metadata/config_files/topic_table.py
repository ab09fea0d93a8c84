"""The number of queues of each topic: `config/topics.json`, extended on demand as a broker does it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rocketflow_store.files.open_files import OPEN_FILES
from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.topic_names import check_topic, is_system_topic
from rocketflow_store.tables.topic_config import BATCH_CQ, QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.metadata.config_files import TopicsFile


class TopicTable:
    """Topics with their numbers of write queues."""

    def __init__(self, file: TopicsFile, default_queues: int) -> None:
        self._file = file
        self._default_queues = default_queues
        self.counts: dict[str, int] = {}
        """Numbers of write queues of the topics that were asked for."""
        self._lock = threading.RLock()
        self._batch_cq: dict[str, bool] = {}

    def queue_count(self, topic: str) -> int:
        """Return the number of write queues of `topic`; create an unknown topic with the default number."""
        count = self.counts.get(topic)
        if count is None:
            check_topic(topic)
            with self._lock:
                known = self._file.get(topic)
                count = known.queues_to_write() if known else self._create(topic, self._default_queues)
                self.counts[topic] = count
        return count

    def exists(self, topic: str) -> bool:
        return topic in self.counts or self._file.get(topic) is not None

    def ensure(self, topic: str, queues: int) -> None:
        """Give `topic` at least `queues` queues."""
        if self.counts.get(topic, 0) >= queues:
            return
        check_topic(topic)
        with self._lock:
            known = self._file.get(topic)
            if known is None:
                self.counts[topic] = self._create(topic, max(queues, 1))
            elif known.write_queue_nums < queues:
                self.counts[topic] = self._create(topic, queues)
            else:
                self.counts[topic] = known.write_queue_nums

    def have_queue(self, topic: str, queue_id: int) -> None:
        """Create the topic if it is new, with the default number of queues, or more if `queue_id` needs them.

        System topics are kept out of the file, as by a broker.
        """
        if queue_id < self.counts.get(topic, 0) or is_system_topic(topic):
            return
        self.ensure(topic, max(self.queue_count(topic), queue_id + 1))

    @contextmanager
    def one_write(self) -> Iterator[None]:
        """Write the topics that a block creates or extends together, at its end."""
        try:
            with self._lock, self._file.one_write():
                yield
        except BaseException:
            self.counts.clear()  # they may be of topics that could not be written
            raise

    def forget(self, topic: str) -> None:
        """Drop what is cached of a deleted topic."""
        self.counts.pop(topic, None)
        self._batch_cq.pop(topic, None)

    def is_batch_cq(self, topic: str) -> bool:
        """Return True if the topic's attribute `queue.type` is BatchCQ: its queues have one unit per batch."""
        known = self._batch_cq.get(topic)
        if known is None and not is_system_topic(topic):
            config = self._file.get(topic)
            known = config is not None and config.is_batch_cq
            if config is not None:
                self._batch_cq[topic] = known
        return bool(known)

    def set_queue_type(self, topic: str, queue_type: str, *, in_use: bool) -> None:
        """Set the `queue.type` of a topic.

        Raises StoreConfigError for an unknown type, and for a change while its queues are `in_use`.
        """
        if queue_type not in (SIMPLE_CQ, BATCH_CQ):
            raise StoreConfigError(QUEUE_TYPE_ATTRIBUTE, queue_type, f"must be {SIMPLE_CQ} or {BATCH_CQ}")
        config = self._file.get(topic)
        assert config is not None
        if config.attributes.get(QUEUE_TYPE_ATTRIBUTE, SIMPLE_CQ) == queue_type:
            return
        if in_use:
            raise StoreConfigError(QUEUE_TYPE_ATTRIBUTE, queue_type, f"topic {topic} has messages of the other type")
        self._file.put(config.with_attribute(QUEUE_TYPE_ATTRIBUTE, queue_type))
        self._batch_cq.pop(topic, None)

    def _create(self, topic: str, queues: int) -> int:
        OPEN_FILES.check_new(f"topic {topic} with {queues} queues")
        self._file.set_queue_nums(topic, queues)
        return queues
