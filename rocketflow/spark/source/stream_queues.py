"""The queues of a stream's query: those of its topics that exist at the moment."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.store_access import QueueBounds, SourceStores
from rocketflow.spark.source.stream_offset import CheckpointError, QueueKey, StreamOffset
from rocketflow.spark.source.topic_check import MissingTopicError, describe_missing

_log: Final = logging.getLogger("rocketflow.spark.stream_planner")

Queues = Mapping[QueueKey, QueueBounds]


class StreamQueues:
    """The queues that one query run reads; topics that it lacks are warned of once."""

    def __init__(self, options: SourceOptions, stores: SourceStores) -> None:
        self._options, self._stores = options, stores
        self._chooser = QueueChooser(options.topics, options.include_system_topics)
        self._warned_missing: list[str] = []

    def bounds(self) -> dict[QueueKey, QueueBounds]:
        """Return the queues and their bounds; MissingTopicError where the options say so."""
        there = self._stores.snapshot()
        chosen = {key: there[key] for key in self._chooser.chosen(there)}
        missing = self._chooser.missing(chosen) if self._options.topics.named else []
        if missing and missing != self._warned_missing:
            told = describe_missing(missing, (key.qualified_topic for key in there))
            if self._options.fail_on_missing_topic and self._lacks_topic(there):
                raise MissingTopicError(told)
            self._warned_missing = missing
            _log.warning("%s; the query waits for them", told)
        return chosen

    def _lacks_topic(self, there: Iterable[QueueKey]) -> bool:
        """Return whether a topic that the query names has no queue, and is listed by no store."""
        known = {name for key in there for name in (key.topic, key.qualified_topic)} | self._stores.listed_topics()
        return not known.issuperset(self._options.topics.named)

    def check(self, start: StreamOffset) -> None:
        """Raise CheckpointError for a position of other topics or stores: it is no checkpoint of this query."""
        names = set(self._stores.names())
        foreign = [key for key in start if key.store not in names or not self._chooser.takes(key)]
        if foreign:
            topics = ", ".join(sorted({key.qualified_topic for key in foreign}))
            raise CheckpointError(
                f"the checkpoint is of topic {topics}, which this query ({self._options.topics.describe()}) does not "
                "read; give the query a checkpoint directory of its own, or the topics it was begun with"
            )
