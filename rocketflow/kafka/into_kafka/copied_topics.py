"""The store topics that a bridge copies, refreshed periodically, and their queues."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rocketflow.errors import UsageError
from rocketflow.kafka.errors import TopicMissingError
from rocketflow_store.spi.tables import topics_of

if TYPE_CHECKING:
    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow_store import StoreReader


class CopiedTopics:
    """The store topics that a bridge copies; `names` maps store topics to Kafka topics."""

    def __init__(self, options: BridgeOptions, reader: StoreReader) -> None:
        self._options, self._reader = options, reader
        self.names: dict[str, str] = {}
        self._looked = 0.0

    def refresh(self) -> None:
        """List the topics again if `discover_ms` have passed. Raise TopicMissingError if a named topic is missing."""
        now = time.monotonic()
        if self.names and (now - self._looked) * 1000 < self._options.discover_ms:
            return
        self._looked = now
        self.names, missing = self._options.choice.of_store(self._reader.topics(), self._reader.listed_topics())
        self._check_own_topics()
        if missing:
            raise TopicMissingError(f"the store at {self._options.store} has no topic {', '.join(missing)}")

    def _check_own_topics(self) -> None:
        """Raise UsageError if refused messages or marks would go to a topic that messages are copied to."""
        options, into = self._options, {target: topic for topic, target in self.names.items()}
        own = {"--progress-topic": options.progress_topic}
        if options.quarantines:
            own["--quarantine-topic"] = options.quarantine_topic
            if options.quarantine_topic == options.progress_topic:
                raise UsageError(
                    f"--quarantine-topic {options.quarantine_topic} is also the --progress-topic; give another one"
                )
        for option, name in own.items():
            if name in into:
                raise UsageError(
                    f"{option} {name}: the store's topic {into[name]} is copied to it; give another one, or "
                    f"--map NAME={into[name]}"
                )

    def partitions_for(self, topic: str) -> int:
        """Return how many partitions a topic's copy needs."""
        return 1 if self._options.by_key else self._queue_count(topic)

    def _queue_count(self, topic: str) -> int:
        """Return the number of queues that a topic has or, by its configuration, may get."""
        known = topics_of(self._reader.path).get(topic)
        present = max((queue for name, queue in self.bounds() if name == topic), default=0) + 1
        return max(present, 0 if known is None else known.write_queue_nums)

    def bounds(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return (min, max) queue offsets of every queue that is copied."""
        queues = self._reader.snapshot().queues
        return {key: bounds for key, bounds in sorted(queues.items()) if key[0] in self.names}
