"""Helpers of the bridge tests: topics of a test broker, bridges in this and other processes, contents of stores."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.errors import InvalidReplicationFactorError

from rocketflow.kafka.bridge import run_bridge
from rocketflow.kafka.client.clients import NULL, NullHeader, allow_null_headers, leave_null
from rocketflow.kafka.options.bridge_options import BridgeOptions, parse
from rocketflow.kafka.shared.run_state import BridgeSummary, StopRequest
from rocketflow_store import StoreConfig, StoreReader
from tests.support.trials import COMMAND_LINE, environment

SMALL = "mappedFileSizeCommitLog=16777216\nmappedFileSizeConsumeQueue=600000\nmaxHashSlotNum=20000\nmaxIndexNum=80000\n"
Header = tuple[str, bytes | None]


@dataclass(frozen=True)
class Sent:
    """A message as sent or as read back."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    stamp: int = 1_700_000_000_000


class Topics:
    """Creates, fills and reads topics."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin: Any = None
        self._asking: Any = None
        self.connect()

    def __enter__(self) -> Topics:
        return self

    def __exit__(self, *_: object) -> None:
        self.admin.close()
        if self._asking is not None:
            self._asking.close()

    def connect(self) -> None:
        """Connect, or reconnect to a restarted broker."""
        from kafka.admin import KafkaAdminClient

        if self.admin is not None:
            self.admin.close()
        self.admin = KafkaAdminClient(bootstrap_servers=self.address)

    def create(self, *names: str, partitions: int = 2, **configs: str) -> None:
        entry: dict[str, Any] = {"num_partitions": partitions, "replication_factor": 1}
        entry["configs"] = {"retention.ms": "-1", **configs}  # the messages' timestamps are years old
        deadline = time.monotonic() + 30
        while True:
            try:
                self.admin.create_topics(dict.fromkeys(names, entry))
                break
            except InvalidReplicationFactorError:  # a broker listens before it can hold topics
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.admin.wait_for_topics(list(names))

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions({name: partitions})

    def end(self, name: str) -> int:
        """Return the sum of the committed end offsets of partitions 0 and 1."""
        from kafka import KafkaConsumer, TopicPartition

        if self._asking is None:
            self._asking = KafkaConsumer(bootstrap_servers=self.address, isolation_level="read_committed")
        return sum(self._asking.end_offsets([TopicPartition(name, one) for one in (0, 1)]).values())

    def send(self, name: str, messages: Sequence[Sent], partition: int | None = None, **options: Any) -> None:
        """Send messages to `partition`, or message i to partition i % 2."""
        producer = self.producer(**options)
        for number, one in enumerate(messages):
            self.give(producer, name, one, number % 2 if partition is None else partition)
        producer.close()

    def producer(self, **options: Any) -> Any:
        from kafka import KafkaProducer

        allow_null_headers()
        given = {"linger_ms": 10, "batch_size": 65536, **options}
        return KafkaProducer(bootstrap_servers=self.address, value_serializer=leave_null(), **given)

    @staticmethod
    def give(producer: Any, name: str, one: Sent, partition: int) -> Any:
        headers = [NullHeader(title) if value is None else (title, value) for title, value in one.headers]
        value = NULL if one.value is None else one.value
        return producer.send(name, value, one.key, headers, partition, one.stamp)

    def read(self, name: str, partitions: int = 2) -> dict[int, list[Sent]]:
        """Return all committed messages by partition, read with an unmodified kafka-python consumer."""
        from kafka import KafkaConsumer, TopicPartition

        consumer: Any = KafkaConsumer(
            bootstrap_servers=self.address,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=20_000,
            max_partition_fetch_bytes=8 << 20,
        )
        parts = [TopicPartition(name, one) for one in range(partitions)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = _committed_ends(consumer, parts)
        found: dict[int, list[Sent]] = {one: [] for one in range(partitions)}
        while any(consumer.position(part) < ends[part] for part in parts):
            for part, records in consumer.poll(200).items():
                found[part.partition] += [
                    Sent(one.key, one.value, tuple(one.headers), one.timestamp) for one in records
                ]
        consumer.close()
        return found


def _committed_ends(consumer: Any, parts: Sequence[Any]) -> dict[Any, int]:
    """Return the committed end offsets, once the markers of committed transactions are written.

    A broker answers a commit before it writes the markers. A transaction that stays open ends the wait after 10 s.
    """
    from kafka import KafkaConsumer

    deadline = time.monotonic() + 10
    every: Any = KafkaConsumer(bootstrap_servers=consumer.config["bootstrap_servers"])
    while (ends := consumer.end_offsets(parts)) != every.end_offsets(parts) and time.monotonic() < deadline:
        time.sleep(0.1)
    every.close()
    return dict(ends)


def options(direction: str, address: str, store: str, *arguments: str) -> BridgeOptions:
    """Parse a bridge's command line; a store that the bridge creates has small files."""
    config = Path(store).parent / "small.conf"
    config.write_text(SMALL)
    given = ["--bootstrap", address, "--store", store, "--config", str(config), *arguments]
    return parse(given, program="bridge", direction=direction, example="")


def bridge(direction: str, address: str, store: str, *arguments: str, stop: StopRequest | None = None) -> BridgeSummary:
    """Run a bridge in this process until it has caught up."""
    return run_bridge(options(direction, address, store, "--until-caught-up", *arguments), stop)


def bridge_process(direction: str, address: str, store: str, *arguments: str) -> subprocess.Popen[str]:
    """Start `rocketflow bridge ...` in a process of its own."""
    config = Path(store).parent / "small.conf"
    config.write_text(SMALL)
    command = [sys.executable, "-c", COMMAND_LINE, "bridge", direction, "--bootstrap", address, "--store", store]
    return subprocess.Popen(
        [*command, "--config", str(config), "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def finished(process: subprocess.Popen[str], timeout: float = 120) -> tuple[int, dict[str, Any], str]:
    """Wait for the process; return (exit code, last line of stdout as JSON, stderr)."""
    out, error = process.communicate(timeout=timeout)
    lines = out.strip().splitlines()
    return process.returncode, json.loads(lines[-1]) if lines else {}, error


def stored(store: str, topic: str) -> dict[int, list[tuple[bytes, dict[str, str]]]]:
    """Return (body, properties) of all messages by queue."""
    found = {}
    with StoreReader(store) as reader:
        for queue in reader.queues(topic):
            low, high = reader.bounds(topic, queue)
            rows = []
            for batch in reader.read(topic, queue, low, high, ["body", "properties"]):
                pairs = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
                rows += [(body, dict(properties)) for body, properties in pairs]
            found[queue] = rows
    return found


def small_store(path: Path) -> StoreConfig:
    """Return the settings of a store with small files."""
    file = path.parent / "small.conf"
    file.write_text(SMALL)
    return StoreConfig.from_broker_conf(file)
