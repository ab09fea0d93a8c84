"""Kafka offset <-> queue offset, answered from the store: its envelopes say which commit has an offset, its messages
where they come from. There is no table beside them that could say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocketflow.kafka import property_names as names
from rocketflow.kafka.store_commit import next_offset
from rocketflow_store.sink.sink_commit import commit_at, commit_places

if TYPE_CHECKING:
    from rocketflow_store.commit_envelope import CommitEnvelope
    from rocketflow_store.errors import UnknownTopicError
from rocketflow_store.store_reader import StoreReader


@dataclass(frozen=True, slots=True)
class OffsetPair:
    """One message on both sides."""

    kafka_topic: str
    partition: int
    kafka_offset: int
    store_topic: str
    queue_id: int
    queue_offset: int

    def as_dict(self) -> dict[str, Any]:
        """For people's scripts."""
        return {
            "kafkaTopic": self.kafka_topic,
            "partition": self.partition,
            "kafkaOffset": self.kafka_offset,
            "topic": self.store_topic,
            "queueId": self.queue_id,
            "queueOffset": self.queue_offset,
        }


def queue_offset_of(
    reader: StoreReader, sink_id: str, store_topic: str, kafka_topic: str, partition: int, offset: int
) -> OffsetPair | None:
    """The message with this Kafka offset, or the first one behind it; None where none is in the store.

    Kafka's offsets have gaps (marks of transactions, compaction), and a message may have been refused.
    """
    commits = list(commit_places(reader, sink_id))[::-1]
    low, high = 0, len(commits)
    while low < high:
        middle = (low + high) // 2
        envelope = commit_at(reader, commits[middle], sink_id)
        end = None if envelope is None else next_offset(envelope.progress, kafka_topic, partition)
        if end is not None and end > offset:
            high = middle
        else:
            low = middle + 1
    while low < len(commits):  # a commit may have nothing at or behind the offset: the next one has
        envelope = commit_at(reader, commits[low], sink_id)
        found = None if envelope is None else _in_commit(reader, envelope, store_topic, kafka_topic, partition, offset)
        if found is not None:
            return found
        low += 1
    return None


def kafka_offset_of(reader: StoreReader, store_topic: str, queue_id: int, queue_offset: int) -> OffsetPair | None:
    """Where a stored message comes from; None where it did not come from Kafka, or is not there.

    UnknownTopicError for a topic that the store does not have.
    """
    if queue_id not in reader.queues(store_topic):
        if store_topic not in reader.topics():
            raise UnknownTopicError(store_topic)
        return None
    low, high = reader.bounds(store_topic, queue_id)
    if not low <= queue_offset < high:
        return None
    for batch in reader.read(store_topic, queue_id, queue_offset, queue_offset + 1, ["properties"]):
        properties = dict(batch.column(0)[0].as_py())
        if names.ORIGIN_OFFSET in properties:
            return OffsetPair(
                properties[names.ORIGIN_TOPIC],
                int(properties[names.ORIGIN_PARTITION]),
                int(properties[names.ORIGIN_OFFSET]),
                store_topic,
                queue_id,
                queue_offset,
            )
    return None


def _in_commit(
    reader: StoreReader, envelope: CommitEnvelope, store_topic: str, kafka_topic: str, partition: int, offset: int
) -> OffsetPair | None:
    best: OffsetPair | None = None
    for queue_id in reader.queues(store_topic):
        low = _first_at(reader, store_topic, queue_id, envelope.begin_offset)
        high = _first_at(reader, store_topic, queue_id, envelope.end_offset)
        for batch in reader.read(store_topic, queue_id, low, high, ["queueOffset", "properties"], on_missing="skip"):
            for row, pairs in enumerate(batch.column(1).to_pylist()):
                found = dict(pairs)
                if found.get(names.ORIGIN_TOPIC) != kafka_topic or found.get(names.ORIGIN_PARTITION) != str(partition):
                    continue
                at = int(found[names.ORIGIN_OFFSET])
                if at >= offset and (best is None or at < best.kafka_offset):
                    queue_offset = int(batch.column(0)[row].as_py())
                    best = OffsetPair(kafka_topic, partition, at, store_topic, queue_id, queue_offset)
    return best


def _first_at(reader: StoreReader, topic: str, queue_id: int, phy_offset: int) -> int:
    """The first queue offset whose message stands at or behind a place in the log."""
    low, high = reader.bounds(topic, queue_id)
    while high - low > 4096:
        middle = (low + high) // 2
        if int(reader.read_units(topic, queue_id, middle, middle + 1)["phy_offset"][0]) < phy_offset:
            low = middle + 1
        else:
            high = middle
    places = reader.read_units(topic, queue_id, low, high)["phy_offset"].astype(np.int64)
    return low + int(np.searchsorted(places, phy_offset))
