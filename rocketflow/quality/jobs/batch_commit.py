"""The commit of one batch: good rows, quarantined rows, the result and the query's progress, at once.

The envelope's progress holds the query, its batch and the ranges that were checked. A repeated batch is recognised by
it, even if the suite has changed: the same ranges are a replay, other ranges are an error.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rocketflow import store_writes
from rocketflow.quality.results.results import RESULT_TOPIC, result_chunk
from rocketflow_store import FlushDiskType, MessageStore, StoreConfig, StoreReader
from rocketflow_store.spi.commits import (
    CheckpointWentBackError,
    ProgressBatch,
    ReplayMismatchError,
    last_commit,
)
from rocketflow_store.spi.places import is_store
from rocketflow_store.spi.requeue import queue_count
from rocketflow_store.spi.settings import SystemClock
from rocketflow_store.spi.staging import StagingArea
from rocketflow_store.spi.tables import topics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.spi.commits import CommitEnvelope
    from rocketflow_store.spi.staging import StagedPart

_STAMPED: Final = "quality"


class QualityCommits:
    """Commits of one query under one id; if another run commits meanwhile, every later commit fails."""

    def __init__(self, store: str, sink_id: str, query_id: str, run_id: str, lock_timeout_ms: int = 60_000) -> None:
        self.store, self.sink_id = store, sink_id
        self._query_id, self._run_id = query_id, run_id
        self._patience = store_writes.Patience(lock_timeout_ms / 1000)
        self._settings = replace(StoreConfig.load(), flush_disk_type=FlushDiskType.SYNC_FLUSH)
        self._config = self._settings
        self._queues: dict[str, int] = {}
        self._staging = StagingArea(store, sink_id)
        self._last: CommitEnvelope | None = None

    def prepare(self, queues: dict[str, int]) -> dict[str, int]:
        """Create missing topics with the given queues, read the last commit; return the topics' numbers of queues."""
        self._queues = {**queues, RESULT_TOPIC: 1}

        def directly(store: MessageStore) -> dict[str, int]:
            with store.one_topic_write():
                for topic, count in self._queues.items():
                    store.ensure_topic(topic, count)
            self._config, self._last = store.config, last_commit(store, self.sink_id)
            return {topic: len(store.queues(topic)) or queues[topic] for topic in queues}

        def through(broker: store_writes.BrokerWrites) -> dict[str, int]:  # a commit creates the topics
            known = topics_of(self.store)
            with StoreReader(self.store, self._settings) as reader:
                self._config, self._last = reader.config, broker.last_commit(self.sink_id)
            return {topic: queue_count(known, topic) if known.get(topic) else count for topic, count in queues.items()}

        found = store_writes.write(self.store, self._settings, directly, through, self._patience)
        self._check_owner()
        return found

    def replayed(self, batch_id: int) -> list[dict[str, Any]] | None:
        """Return the ranges of a committed batch, or None; raise CheckpointWentBackError for an earlier batch."""
        if self._last is None or batch_id > self._last.progress["batchId"]:
            return None
        done = self._last.progress["batchId"]
        if batch_id < done:
            raise CheckpointWentBackError(
                f"sink {self.sink_id}: batch {batch_id} came after batch {done} was committed; "
                "the checkpoint went back, restore the right one or choose a new --sink-id"
            )
        ranges: list[dict[str, Any]] = self._last.progress["ranges"]
        return ranges

    def check_replay(self, batch_id: int, ranges: list[dict[str, Any]]) -> None:
        """Raise ReplayMismatchError if a committed batch is repeated with other rows."""
        known = self.replayed(batch_id)
        if known != ranges:
            raise ReplayMismatchError(
                f"sink {self.sink_id}: batch {batch_id} is committed with the ranges {known} and came again with "
                f"{ranges}; the checkpoint is not the one that this batch was made with"
            )

    def commit(self, batch_id: int, parts: Sequence[StagedPart], fields: dict[str, Any], born_ms: int) -> None:
        """Commit all rows of the parts and the result, once."""
        property_crc = all(part.property_crc for part in parts) and self._config.append_prop_crc
        progress = {
            "kind": _STAMPED,
            "query": self._query_id,
            "batchId": batch_id,
            "suite": fields["suite"],
            "ranges": fields["ranges"],
        }
        batch = ProgressBatch(
            *(self.sink_id, self._run_id, self._last, progress, sum(part.rows for part in parts) + 1),
            chunks=[result_chunk(self._config, fields, born_ms, property_crc=property_crc)],
            parts=parts,
            queues=self._queues,
        )
        self._last = store_writes.commit(
            self.store, self._settings, lambda commits: commits.commit_progress(batch), self._patience
        )
        self._staging.keep_files(parts)
        self._staging.sweep(max(batch_id, self._last.batch_id))

    def discard(self, batch_id: int, parts: Sequence[StagedPart]) -> None:
        """Delete the staged parts of a batch that is not committed."""
        self._staging.abort(batch_id, parts)
        self._staging.clear(batch_id)  # parts of tasks whose job failed

    def _check_owner(self) -> None:
        progress = {} if self._last is None else self._last.progress
        if self._last is not None and progress.get("query") != self._query_id:
            raise CheckpointWentBackError(
                f"sink {self.sink_id} belongs to query {progress.get('query')}, whose last batch was "
                f"{progress.get('batchId')}; query {self._query_id} (a new checkpoint?) must use another --sink-id, "
                "or the old checkpoint"
            )


def now_ms() -> int:
    """Return this machine's time in ms."""
    return SystemClock().now_ms()


def queue_counts(store: str, topics: Sequence[str]) -> dict[str, int]:
    """Return the number of queues of topics in a store; 0 for a topic that does not exist."""
    if not is_store(store, StoreConfig.load()):
        return dict.fromkeys(topics, 0)
    with StoreReader(store, StoreConfig.load()) as reader:
        known = set(reader.topics())
        return {topic: len(reader.queues(topic)) if topic in known else 0 for topic in topics}
