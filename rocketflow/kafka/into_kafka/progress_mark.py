"""The progress of a bridge into Kafka: a record in the topic `__rocketflow_progress`, written in every transaction.

Key: the bridge's id. Value: {"version": 1, "store": ID, "progress": {"store topic": {"queue": next queue offset}},
"targets": {"Kafka topic": its id}}; ids are missing if the broker has none. The topic is compacted and has one
partition; the last committed record of a key is valid. Unlike a consumer group's offsets, these records do not expire
some days after a bridge has stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka.client import clients
from rocketflow.kafka.errors import KafkaRefusedError
from rocketflow.kafka.shared.mark import Mark, decode_mark

if TYPE_CHECKING:
    from rocketflow.kafka.options.bridge_options import BridgeOptions

_SEGMENT_BYTES: Final = 1 << 20


def ensure_topic(options: BridgeOptions) -> None:
    """Create the compacted topic of the marks if it is missing."""
    from kafka.errors import TopicAlreadyExistsError

    topic = options.progress_topic
    admin = clients.admin(options)
    try:
        with clients.kafka_errors(options):
            if topic not in set(admin.list_topics()):
                try:
                    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": -1, "configs": _CONFIGS}})
                    admin.wait_for_topics([topic])
                except TopicAlreadyExistsError:
                    pass
    finally:
        admin.close()


_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(_SEGMENT_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
}


def read_marks(options: BridgeOptions) -> dict[str, Mark]:
    """Return the last committed mark of every bridge, by bridge id."""
    from kafka import TopicPartition

    consumer, _ = clients.consumer(options, group_id=None)
    try:
        with clients.kafka_errors(options):
            tp = TopicPartition(options.progress_topic, 0)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end = consumer.end_offsets([tp], timeout_ms=clients.CALL_MS)[tp]
            found: dict[str, Mark] = {}
            while (consumer.position(tp, timeout_ms=clients.CALL_MS) or 0) < end:
                for batches in consumer.poll(200).values():
                    _take(options, batches, found)
        return found
    finally:
        consumer.close(autocommit=False, timeout_ms=2_000)


def _take(options: BridgeOptions, polled: list[Any], found: dict[str, Mark]) -> None:
    """Put the polled marks into `found`.

    Raise KafkaRefusedError if this bridge's mark is malformed; skip malformed marks of other bridges.
    """
    from rocketflow.kafka.client.batch_consumer import rows_of

    for rows in rows_of(options.progress_topic, 0, polled):
        for at, key in enumerate(rows.keys.to_pylist()):
            bridge_id, value = (key or b"").decode("utf-8", "replace"), rows.values[at].as_py()
            found.pop(bridge_id, None)
            if value is None:
                continue
            try:
                found[bridge_id] = decode_mark(value, f"{options.progress_topic} offset {int(rows.offsets[at])}")
            except KafkaRefusedError:
                if bridge_id == options.bridge_id:
                    raise
