"""The queues of a stream's query: those queues of its topics that exist now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stores import Stores
from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, StreamOffset
from rocketflow.spark.source.topic_check import MissingTopicError, describe_missing

_log: Final = logging.getLogger("rocketflow.spark.stream_planner")

Queues = Mapping[QueueKey, QueueBounds]


class StreamQueues:
    """The queues that one query run reads; logs missing topics once."""

    def __init__(self, options: SourceOptions, stores: Stores) -> None:
        self._options, self._stores = options, stores
        self._chooser = QueueChooser(options.topics, options.include_system_topics)
        self._warned_missing: list[str] = []

    def bounds(self) -> dict[QueueKey, QueueBounds]:
        """Return the queues and their bounds; raise MissingTopicError if the options ask for it."""
        chosen = self._stores.snapshot(self._chooser)
        missing = self._chooser.missing(chosen) if self._options.topics.named else []
        if missing and missing != self._warned_missing:
            existing = self._stores.topics()
            problem = describe_missing(missing, existing)
            if self._options.fail_on_missing_topic and self._lacks_topic(existing):
                raise MissingTopicError(problem)
            self._warned_missing = missing
            _log.warning("%s; the query waits for them", problem)
        return chosen

    def _lacks_topic(self, existing: set[str]) -> bool:
        """Return True if a topic that the query names has no queue and is not listed by any store."""
        known = existing | {name.rpartition("/")[2] for name in existing} | self._stores.listed_topics()
        return not known.issuperset(self._options.topics.named)

    def check(self, start: StreamOffset) -> None:
        """Raise CheckpointError for a position with other topics or stores: it belongs to another query."""
        others = [key for key in start if not self._stores.knows(key.store) or not self._chooser.takes(key)]
        if others:
            topics = ", ".join(sorted({key.qualified_topic for key in others}))
            raise CheckpointError(
                f"the checkpoint is of topic {topics}, which this query ({self._options.topics.describe()}) does not "
                "read; give the query a checkpoint directory of its own, or the topics it was started with"
            )
        self._stores.expect(start)
