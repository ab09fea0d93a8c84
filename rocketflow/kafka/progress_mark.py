"""How far a bridge into Kafka is: a record of the topic `__rocketflow_progress`, written in every transaction.

Key: the bridge's id. Value: {"version": 1, "store": ID, "progress": {"store topic": {"queue": next queue offset}}}. The
topic is compacted and has one partition; the last committed record of a key counts. A consumer group's offsets would
be forgotten some days after a bridge was stopped; these are not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka import clients
from rocketflow.kafka.errors import KafkaRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow.kafka.options import BridgeOptions

VERSION: Final = 1
_SEGMENT_BYTES: Final = 1 << 20
Progress = dict[str, dict[str, int]]


def encode_mark(store_id: str, progress: Mapping[str, Mapping[str, int]]) -> bytes:
    """The value of a mark."""
    return json.dumps({"version": VERSION, "store": store_id, "progress": progress}, separators=(",", ":")).encode()


def decode_mark(value: bytes, where: str) -> tuple[str, Progress]:
    """(the store's id, progress) of a mark; KafkaRefusedError where it is none."""
    try:
        fields = json.loads(value)
        if fields["version"] != VERSION:
            raise ValueError(f"version {fields['version']}")
        progress = {
            str(topic): {str(queue): int(offset) for queue, offset in queues.items()}
            for topic, queues in fields["progress"].items()
        }
        return str(fields["store"]), progress
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KafkaRefusedError(f"{where} is no mark of a bridge ({error}); give another --progress-topic") from error


def ensure_topic(options: BridgeOptions) -> None:
    """Make the marks' topic where it is missing; KafkaRefusedError where it is not one that keeps them."""
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


def read_mark(options: BridgeOptions) -> tuple[str, Progress] | None:
    """(the store's id, progress) that the bridge's last committed transaction says; None where it never committed."""
    from kafka import TopicPartition

    consumer, _ = clients.consumer(options, group_id=None)
    try:
        with clients.kafka_errors(options):
            tp = TopicPartition(options.progress_topic, 0)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end = consumer.end_offsets([tp], timeout_ms=clients.CALL_MS)[tp]
            found = None
            while (consumer.position(tp, timeout_ms=clients.CALL_MS) or 0) < end:
                for batches in consumer.poll(200).values():
                    found = _newest(options, batches) or found
        return found
    finally:
        consumer.close(autocommit=False, timeout_ms=2_000)


def _newest(options: BridgeOptions, polled: list[Any]) -> tuple[str, Progress] | None:
    from rocketflow.kafka.batch_consumer import rows_of

    wanted, found = options.bridge_id.encode(), None
    for rows in rows_of(options.progress_topic, 0, polled):
        keys = rows.keys.to_pylist()
        for at in (at for at, key in enumerate(keys) if key == wanted):
            value = rows.values[at].as_py()
            where = f"{options.progress_topic} offset {int(rows.offsets[at])}"
            found = None if value is None else decode_mark(value, where)
    return found
