"""Map Kafka offsets to queue offsets and back.

The answers come from the store alone: commit envelopes name the commit that has an offset, message properties name a
message's origin. There is no separate table that could disagree with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocketflow.errors import UsageError
from rocketflow.kafka.into_store.store_commit import next_offset
from rocketflow.kafka.shared import property_names as names
from rocketflow.kafka.shared.claims import claims_on_store
from rocketflow.kafka.shared.topic_record import offsets_alone
from rocketflow_store import SkipFaults, UnknownTopicError
from rocketflow_store.spi.commits import commit_at, commit_places, last_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rocketflow_store import StoreReader
    from rocketflow_store.spi.commits import CommitEnvelope


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
        """Return the pair with the keys of `rocketflow bridge offset-map --json`."""
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
    """Return the message with this Kafka offset, or the first one after it; None if the store has neither.

    Kafka's offsets have gaps (transaction markers, compaction), and a message may have been refused.
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
    while low < len(commits):  # a commit may have no message at or after the offset: try the next
        envelope = commit_at(reader, commits[low], sink_id)
        found = None if envelope is None else _in_commit(reader, envelope, store_topic, kafka_topic, partition, offset)
        if found is not None:
            return found
        low += 1
    return None


def why_no_queue_offset(
    reader: StoreReader, sink_id: str, store_topic: str, kafka_topic: str, partition: int, offset: int
) -> str:
    """Explain why `queue_offset_of` returned None.

    Raises: UsageError if the bridge has no commit in this store or did not copy the topic or the partition.
    """
    last = last_commit(reader, sink_id)
    bridge_id = sink_id.partition(":")[2]
    if last is None:
        known = sorted({one.bridge_id for one in claims_on_store(reader)})
        remedy = f"give --id, one of {', '.join(known)}" if known else "no bridge has copied into it"
        raise UsageError(f"bridge {bridge_id!r} has no commit in the store at {reader.path}: {remedy}")
    copied = offsets_alone(last.progress)
    if kafka_topic not in copied:
        raise UsageError(f"bridge {bridge_id} did not copy Kafka topic {kafka_topic}; it has {_listed(copied)}")
    end = next_offset(last.progress, kafka_topic, partition)
    if end is None:
        raise UsageError(
            f"bridge {bridge_id} did not copy partition {partition} of {kafka_topic}; it has "
            f"{_listed(copied[kafka_topic])}"
        )
    extent = f"up to offset {end - 1}" if end else "up to its beginning"
    if offset >= end:
        return f"{kafka_topic} partition {partition} is copied {extent}"
    if store_topic not in reader.topics():
        raise UsageError(
            f"the store has no topic {store_topic}: name the topic that {kafka_topic} was copied to with --store-topic"
        )
    return (
        f"{kafka_topic} partition {partition} is copied {extent}, but {store_topic} has no message with offset "
        f"{offset} or later: those offsets are transaction markers, refused messages, or messages that have expired"
    )


def why_no_kafka_offset(reader: StoreReader, store_topic: str, queue_id: int, queue_offset: int) -> str:
    """Explain why `kafka_offset_of` returned None. Raise UsageError if the queue does not exist."""
    queues = reader.queues(store_topic)
    if queue_id not in queues:
        raise UsageError(f"topic {store_topic} has no queue {queue_id}; it has {_listed(queues)}")
    low, high = reader.bounds(store_topic, queue_id)
    if low <= queue_offset < high:
        return f"{store_topic} queue {queue_id} queue offset {queue_offset} did not come from Kafka"
    return f"{store_topic} queue {queue_id} has queue offsets {low} to {high - 1}"


def _listed(known: Iterable[object]) -> str:
    found = [str(one) for one in known]
    return ", ".join(found[:10]) + (f" and {len(found) - 10} more" if len(found) > 10 else "")


def kafka_offset_of(reader: StoreReader, store_topic: str, queue_id: int, queue_offset: int) -> OffsetPair | None:
    """Return the origin of a stored message; None if the message does not exist or did not come from Kafka.

    Raises: UnknownTopicError if the store does not have the topic.
    """
    if queue_id not in reader.queues(store_topic):
        if store_topic not in reader.topics():
            raise UnknownTopicError(store_topic)
        return None
    low, high = reader.bounds(store_topic, queue_id)
    if not low <= queue_offset < high:
        return None
    for batch in reader.read(store_topic, queue_id, queue_offset, queue_offset + 1, ["properties"]):
        origin = _origin(dict(batch.column(0)[0].as_py()))
        if origin is not None:
            return OffsetPair(*origin, store_topic, queue_id, queue_offset)
    return None


def _in_commit(
    reader: StoreReader, envelope: CommitEnvelope, store_topic: str, kafka_topic: str, partition: int, offset: int
) -> OffsetPair | None:
    best: OffsetPair | None = None
    for queue_id in reader.queues(store_topic):
        low = _first_at(reader, store_topic, queue_id, envelope.begin_offset)
        high = _first_at(reader, store_topic, queue_id, envelope.end_offset)
        for batch in reader.read(store_topic, queue_id, low, high, ["queueOffset", "properties"], faults=SkipFaults()):
            for row, pairs in enumerate(batch.column(1).to_pylist()):
                origin = _origin(dict(pairs))
                if origin is None or origin[:2] != (kafka_topic, partition):
                    continue
                at = origin[2]
                if at >= offset and (best is None or at < best.kafka_offset):
                    queue_offset = int(batch.column(0)[row].as_py())
                    best = OffsetPair(kafka_topic, partition, at, store_topic, queue_id, queue_offset)
    return best


def _origin(properties: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Return the (topic, partition, offset) in a message's properties, or None. Any sender may set such properties."""
    try:
        return (
            properties[names.ORIGIN_TOPIC],
            int(properties[names.ORIGIN_PARTITION]),
            int(properties[names.ORIGIN_OFFSET]),
        )
    except (KeyError, ValueError):
        return None


def _first_at(reader: StoreReader, topic: str, queue_id: int, phy_offset: int) -> int:
    """Return the first queue offset whose message starts at or after `phy_offset`."""
    low, high = reader.bounds(topic, queue_id)
    while high - low > 4096:
        middle = (low + high) // 2
        if int(reader.read_units(topic, queue_id, middle, middle + 1)["phy_offset"][0]) < phy_offset:
            low = middle + 1
        else:
            high = middle
    places = reader.read_units(topic, queue_id, low, high)["phy_offset"].astype(np.int64)
    return low + int(np.searchsorted(places, phy_offset))
