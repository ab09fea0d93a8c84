"""The choice of the queues that a read takes: pure, from the topics that exist."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocketflow.spark.source.source_options import TopicChoice
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store.spi.names import is_system_topic


class QueueChooser:
    """Decides for each queue whether the read takes it."""

    def __init__(self, choice: TopicChoice, include_system_topics: bool) -> None:
        self._topics = frozenset(choice.topics)
        self._queues = {topic: frozenset(queues) for topic, queues in choice.queues}
        self._pattern = re.compile(choice.pattern) if choice.pattern is not None else None
        self._include_system_topics = include_system_topics

    def takes(self, key: QueueKey) -> bool:
        """Return True if the queue is part of the read."""
        if self._pattern is not None:
            if is_system_topic(key.topic) and not self._include_system_topics:
                return False
            return self._pattern.fullmatch(key.topic) is not None
        if self._queues:
            return any(key.queue_id in self._queues.get(name, ()) for name in (key.topic, key.qualified_topic))
        return key.topic in self._topics or key.qualified_topic in self._topics

    def named_topics(self) -> list[str] | None:
        """Return the topics that are named, without the names of stores; None for a pattern."""
        if self._pattern is not None:
            return None
        return sorted({name.rpartition("/")[2] for name in self._topics | self._queues.keys()})

    def chosen(self, keys: Iterable[QueueKey]) -> list[QueueKey]:
        """Return the queues of the read, sorted."""
        return sorted(key for key in keys if self.takes(key))

    def missing(self, keys: Iterable[QueueKey]) -> list[str]:
        """Return the named topics (or `topic queue N` of an assignment) that do not exist."""
        existing = list(keys)
        names = {name for key in existing for name in (key.topic, key.qualified_topic)}
        lost = sorted(topic for topic in self._topics if topic not in names)
        pairs = {(name, key.queue_id) for key in existing for name in (key.topic, key.qualified_topic)}
        for topic, queues in sorted(self._queues.items()):
            lost += [f"{topic} queue {queue_id}" for queue_id in sorted(queues) if (topic, queue_id) not in pairs]
        return lost
