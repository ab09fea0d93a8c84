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
from rocketflow.spark.source.topic_check import describe_missing, missing_error, missing_names

_log: Final = logging.getLogger("rocketflow.spark.stream_planner")

Queues = Mapping[QueueKey, QueueBounds]


class StreamQueues:
    """The queues that one query run reads."""

    def __init__(self, options: SourceOptions, stores: Stores) -> None:
        self._options, self._stores = options, stores
        self._chooser = QueueChooser(options.topics, options.include_system_topics)
        self._warned_missing: list[str] = []

    def bounds(self) -> dict[QueueKey, QueueBounds]:
        """Return the queues that have messages, and their bounds."""
        return self._stores.snapshot(self._chooser)

    def check_missing(self, queues: Queues, start: StreamOffset, *, ends_by_itself: bool) -> None:
        """Warn once about topics that do not exist, for which the query waits.

        Raises:
            MissingTopicError: the options ask for it, or the query ends by itself and would never read them. A topic
                that the checkpoint names existed: it is lost, and `LossGuard` has decided about it.
        """
        missing = missing_names(self._chooser, self._stores, queues)
        if ends_by_itself:
            never = self._chooser.missing([*queues, *self._stores.configured(self._chooser), *start])
            if missing and never:
                raise missing_error(never, self._stores)
        elif missing and missing != self._warned_missing:
            existing = self._stores.topics()
            if self._options.fail_on_missing_topic and self._lacks_topic(existing):
                raise missing_error(missing, self._stores)
            self._warned_missing = missing
            _log.warning("%s; the query waits for them", describe_missing(missing, existing))

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
