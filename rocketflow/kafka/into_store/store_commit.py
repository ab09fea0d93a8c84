"""One atomic commit of Kafka messages: the rows and the next offset of every partition in one envelope.

The envelope is the only record of what was copied. A partition's messages are committed only if the last envelope
still has the offset that the bridge started to read at; otherwise another bridge has advanced the partition, and the
messages are skipped. So no message is copied twice, no matter which bridges hold a partition: not even by a zombie, or
by a bridge that has not yet seen a rebalance.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rocketflow.kafka.errors import MessageRefusedError
from rocketflow.kafka.into_store.refused_messages import refused_rows
from rocketflow.kafka.into_store.to_rows import QueueRule, sink_rows
from rocketflow.kafka.options.bridge_options import QUARANTINE
from rocketflow.kafka.shared.topic_record import TopicNote, note_topic, offsets_alone
from rocketflow_store import MessageRejectedError
from rocketflow_store.spi.commits import ProgressBatch
from rocketflow_store.spi.records import BatchEncoder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rocketflow.kafka.client.partition_rows import KafkaRows
    from rocketflow.kafka.options.bridge_options import BridgeOptions
    from rocketflow_store import StoreConfig
    from rocketflow_store.spi.commits import CommitEnvelope, Commits
    from rocketflow_store.spi.records import EncodedChunk

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionPart:
    """The messages of one partition at offsets [`base`, `following`).

    `base` is the next offset in the last commit, None without one; `partitions` is the partition count of the topic,
    `topic_id` its Kafka id.
    """

    topic: str
    partition: int
    store_topic: str
    partitions: int
    base: int | None
    following: int
    rows: Sequence[KafkaRows]
    topic_id: str | None = None

    @property
    def key(self) -> Partition:
        return self.topic, self.partition


@dataclass(slots=True)
class EncodedPart:
    """An encoded part, ready to be appended; `quarantined` of its `rows` go to the quarantine topic."""

    part: PartitionPart
    rows: int
    chunks: list[EncodedChunk]
    quarantined: int = 0
    newest_ms: int = 0


@dataclass(slots=True)
class CommitOutcome:
    """The outcome of a commit.

    `committed` has the next offset of each committed partition; `stale` has, for each skipped partition, the offset in
    the envelope, -1 for none.
    """

    rows: int = 0
    quarantined: int = 0
    newest_ms: int = 0
    committed: dict[Partition, int] = field(default_factory=dict)
    stale: dict[Partition, int] = field(default_factory=dict)
    progress: dict[str, Any] = field(default_factory=dict)


def next_offset(progress: Mapping[str, Any], topic: str, partition: int) -> int | None:
    """Return the next offset of a partition in an envelope's progress, or None."""
    found = progress.get(topic, {}).get(str(partition))
    return None if found is None else int(found)


class PartEncoder:
    """Encodes parts; needs no lock of the store."""

    def __init__(self, config: StoreConfig, options: BridgeOptions) -> None:
        self._config, self._options = config, options
        self._rule = QueueRule(options.queues)
        self._encoders: dict[str, BatchEncoder] = {}

    def encode(self, part: PartitionPart) -> EncodedPart:
        """Encode the records of a part.

        Raises: MessageRefusedError for a message that the store refuses, unless such messages are quarantined.
        """
        encoded = EncodedPart(part, 0, [])
        for rows in part.rows:
            batch, refused = self._checked(rows, part.store_topic)
            self._append(encoded, batch, part.store_topic)
            if refused:
                encoded.quarantined += len(refused)
                self._append(encoded, refused_rows(rows, refused), self._options.quarantine_topic)
            if len(rows):
                encoded.newest_ms = max(encoded.newest_ms, int(rows.timestamps[-1]))
        return encoded

    def _append(self, encoded: EncodedPart, batch: pa.RecordBatch, topic: str) -> None:
        encoder = self._encoder(topic)
        encoded.rows += batch.num_rows
        encoded.chunks += encoder.encode(batch, int(time.time() * 1000))

    def _encoder(self, topic: str) -> BatchEncoder:
        if topic not in self._encoders:
            self._encoders[topic] = BatchEncoder(self._config, lambda _: 1, topic)  # every row has a queueId
        return self._encoders[topic]

    def _checked(self, rows: KafkaRows, topic: str) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return (rows that the store accepts, {refused row: reason})."""
        batch = sink_rows(rows, self._rule)
        refused = _refusals(self._encoder(topic), batch)
        if not refused:
            return batch, refused
        if self._options.on_refused != QUARANTINE:
            row, why = min(refused.items())
            raise MessageRefusedError(
                f"{rows.topic} partition {rows.partition} offset {int(rows.offsets[row])}: {why}; raise the limit "
                "(--config broker.conf), or give --on-refused quarantine to skip such messages"
            )
        kept = np.setdiff1d(np.arange(len(rows)), list(refused))
        return (sink_rows(rows.take(kept), self._rule) if len(kept) else batch.slice(0, 0)), refused


def _refusals(encoder: BatchEncoder, batch: pa.RecordBatch, first: int = 0) -> dict[int, str]:
    """Return {row: reason} of a batch's refused rows, found by bisection; `first` is the number of its first row."""
    try:
        encoder.validate(batch)
    except MessageRejectedError as error:
        if error.row is None:
            raise
        if batch.num_rows == 1:
            return {first: error.why}
        half = batch.num_rows // 2
        found = _refusals(encoder, batch.slice(0, half), first)
        return found | _refusals(encoder, batch.slice(half), first + half)
    return {}


class PartsCommit:
    """The commit of all parts that start at the last commit's offsets, with their progress, or none.

    It is planned once: a call that repeats it, because a broker's answer was lost, commits the same.
    """

    def __init__(self, options: BridgeOptions, run_id: str, encoded: Sequence[EncodedPart]) -> None:
        self._options, self._run_id, self._encoded = options, run_id, encoded
        self._planned: tuple[CommitOutcome, ProgressBatch] | None = None

    def __call__(self, commits: Commits) -> CommitOutcome:
        """Commit and return the outcome.

        Raises: TopicReplacedError or QueuesChangedError if a part contradicts the topic notes of the last commit,
        ProgressMovedError if another commit came between.
        """
        if self._planned is None:
            last = commits.last_commit(self._options.sink_id)
            self._planned = _plan(last, self._options, self._run_id, self._encoded)
        outcome, batch = self._planned
        if outcome.committed:
            commits.commit_progress(batch)
        return outcome


def _plan(
    last: CommitEnvelope | None, options: BridgeOptions, run_id: str, encoded: Sequence[EncodedPart]
) -> tuple[CommitOutcome, ProgressBatch]:
    outcome, progress = CommitOutcome(), _copy(last)
    chunks: list[EncodedChunk] = []
    least_queues: dict[str, int] = {}
    for one in encoded:
        part = one.part
        committed = next_offset(progress, part.topic, part.partition)
        if committed != part.base:
            outcome.stale[part.key] = -1 if committed is None else committed
            continue
        note = TopicNote(part.topic_id, options.queues, part.store_topic)
        note_topic(progress, part.topic, note, options.bridge_id)
        progress.setdefault(part.topic, {})[str(part.partition)] = part.following
        outcome.committed[part.key] = part.following
        outcome.rows += one.rows
        outcome.quarantined += one.quarantined
        outcome.newest_ms = max(outcome.newest_ms, one.newest_ms)
        chunks += one.chunks
        if one.rows:
            count = QueueRule(options.queues).count(part.partitions)
            least_queues[part.store_topic] = max(count, least_queues.get(part.store_topic, 1))
    outcome.progress = offsets_alone(progress)
    batch = ProgressBatch(
        *(options.sink_id, run_id, last, progress, outcome.rows, chunks),
        queues={options.quarantine_topic: 1},
        least_queues=least_queues,
    )
    return outcome, batch


def _copy(last: CommitEnvelope | None) -> dict[str, Any]:
    if last is None:
        return {}
    return {topic: dict(partitions) for topic, partitions in last.progress.items()}
