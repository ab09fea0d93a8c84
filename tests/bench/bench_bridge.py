"""The Kafka bridge compared with kafka-python's clients: 200-byte messages, a real broker.

Bare consumer: polls of `read_committed` records, counted. Bare producer: the same messages in transactions of the same
size. The bridge's figures cover complete runs, from the connection to the end, including the store's commits.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow.kafka.bridge import run_bridge
from rocketflow.kafka.options.bridge_options import BridgeOptions
from rocketflow.kafka.shared.topic_names import TopicChoice
from tests.bench.figures import Figure, ratio
from tests.support.kafka_broker import KafkaBroker

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUNS: Final = 3
_MESSAGES: Final = 400_000
_PARTITIONS: Final = 4
_AT_ONCE: Final = 40_000
_CLIENT: Final = {"linger_ms": 20, "batch_size": 256 << 10, "max_request_size": 8 << 20, "send_buffer_bytes": 1 << 20}


def run(scale: float) -> Iterator[Figure]:
    count = int(_MESSAGES * scale)
    bare_in: list[float] = []
    bridge_in: list[float] = []
    bare_out: list[float] = []
    bridge_out: list[float] = []
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home, KafkaBroker(Path(home) / "kafka") as broker:
        address = broker.bootstrap_servers
        _create(address, ["source", *(f"{kind}{number}" for kind in ("bare", "bridge") for number in range(_RUNS))])
        _produce(address, "source", count, "fill")
        for number in range(_RUNS):
            bare_in.append(count / _consume(address, count))
            store = str(Path(home) / f"store{number}")
            bridge_in.append(_bridge("kafka-to-store", address, store, "source", (), count))
            bare_out.append(count / _produce(address, f"bare{number}", count, f"bare{number}"))
            bridge_out.append(_bridge("store-to-kafka", address, store, "source", (f"bridge{number}=source",), count))
    figures = [
        Figure("bridge, Kafka -> store, 200 B", "messages/s", tuple(bridge_in)),
        Figure("kafka-python's consumer alone, 200 B", "messages/s", tuple(bare_in)),
        Figure("bridge, store -> Kafka, 200 B", "messages/s", tuple(bridge_out)),
        Figure("kafka-python's transactional producer alone, 200 B", "messages/s", tuple(bare_out)),
    ]
    yield from figures
    yield ratio(figures[0], figures[1])
    yield ratio(figures[2], figures[3])


def _create(address: str, topics: Sequence[str]) -> None:
    from kafka.admin import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics({one: {"num_partitions": _PARTITIONS, "replication_factor": 1} for one in topics})
    admin.close()


def _produce(address: str, topic: str, count: int, transactional_id: str) -> float:
    """Return the seconds of sending in transactions, without the connection."""
    from kafka import KafkaProducer

    producer: Any = KafkaProducer(bootstrap_servers=address, transactional_id=transactional_id, **_CLIENT)
    producer.init_transactions()
    value, stamp = b"v" * 200, int(time.time() * 1000)
    began = time.monotonic()
    for first in range(0, count, _AT_ONCE):
        producer.begin_transaction()
        for number in range(first, min(first + _AT_ONCE, count)):
            producer.send(topic, value, b"key-%08d" % (number % 1000), [], number % _PARTITIONS, stamp)
        producer.commit_transaction()
    seconds = time.monotonic() - began
    producer.close()
    return seconds


def _consume(address: str, count: int) -> float:
    """Return the seconds of polling all messages, without the connection."""
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(
        bootstrap_servers=address,
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=20_000,
        max_partition_fetch_bytes=8 << 20,
    )
    consumer.assign([TopicPartition("source", one) for one in range(_PARTITIONS)])
    consumer.seek_to_beginning()
    found, began = 0, time.monotonic()
    while found < count:
        found += sum(len(records) for records in consumer.poll(1000).values())
    seconds = time.monotonic() - began
    consumer.close()
    return seconds


def _bridge(direction: str, address: str, store: str, topic: str, maps: Sequence[str], count: int) -> float:
    """Return the messages a second of a complete run."""
    choice = TopicChoice.parse(topic, None, maps)
    name = f"{direction}-{Path(store).name}"
    done = run_bridge(BridgeOptions(direction, address, store, choice, name, until_caught_up=True))
    assert done.rows == count, done
    return float(done.as_dict()["rowsPerSecond"])
