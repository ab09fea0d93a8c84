"""Connections of the network sink that end at any byte: each row is stored once, by commits and by sends."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from rocketflow.spark.sink import writers
from rocketflow.spark.sink.sink_options import SinkOptions
from rocketflow.spark.sink.target import find_target
from rocketflow.spark.sink.writers import StreamWriter
from rocketflow_store import StoreReader
from tests.support.between import between, place_of_a_cut
from tests.support.network_stores import Brokers, brokers
from tests.support.trials import seeds

CUTS = 8
CUTS_OF_SENDS = 3
ROWS = (450, 10, 0)
"""Rows of 20 kB by partition: the first part is sent in several pieces."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker with an empty store."""
    with brokers(tmp_path_factory.mktemp("cut-sink")) as found:
        found.start("a")
        yield found


class Task:
    """The context of one of Spark's tasks."""

    def __init__(self, batch: int, partition: int, attempt: int) -> None:
        self._batch, self._partition, self._attempt = batch, partition, attempt

    def get(self) -> Task:
        return self

    def partitionId(self) -> int:
        return self._partition

    def taskAttemptId(self) -> int:
        return self._attempt

    def getLocalProperty(self, key: str) -> str:
        names = {"sql.streaming.queryId": "query", "streaming.sql.batchId": str(self._batch)}
        return names.get(key, "run")


class Query:
    """A query's sink without Spark: tasks and commits run in this process, their messages are pickled."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name_servers: str, topic: str, **options: str) -> None:
        self._patch = monkeypatch
        self.options = SinkOptions.parse(
            {"namesrvAddr": name_servers, "topic": topic, "sinkId": topic, "queues": "3", **options}
        )
        self._attempts = 0

    def write(self, batch: int, parts: list[list[bytes]], *, by_sends: bool = False) -> None:
        """Write a batch of bodies by partition."""
        assert self.options.network is not None
        address = find_target(self.options.network, None)
        assert address is not None
        writer = StreamWriter(self.options, None if by_sends else address)
        messages: list[Any] = []
        for partition, bodies in enumerate(parts):
            self._attempts += 1
            self._patch.setattr(writers, "TaskContext", Task(batch, partition, self._attempts))
            rows = pa.RecordBatch.from_pydict({"body": pa.array(bodies, pa.binary())})
            messages.append(pickle.loads(pickle.dumps(writer.write(iter([rows])))))
        writer.commit(messages, batch)


def bodies_of(chance: random.Random, batch: int) -> list[list[bytes]]:
    return [
        [b"%d-%d-%d " % (batch, partition, row) + chance.randbytes(20_000) for row in range(count)]
        for partition, count in enumerate(ROWS)
    ]


def stored(cluster: Brokers, topic: str) -> Counter[bytes]:
    with StoreReader(cluster.store("a")) as reader:
        return Counter(
            body.as_py()
            for queue in reader.queues(topic)
            for rows in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in rows["body"]
        )


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_batches_are_committed_once_whatever_byte_a_cut_hits(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print(f"seed {seed}")
    chance, places = random.Random(seed), random.Random(-seed)
    topic, batch, wanted = f"committed-{seed}", 0, Counter[bytes]()

    def cut() -> int | None:
        return place_of_a_cut(places) if broker.cuts < CUTS else None

    with between(cluster.names.port, cluster.running["a"].port, cut, counts_requests=True) as (names, broker):
        query = Query(monkeypatch, names.address, topic)
        while broker.cuts < CUTS:
            parts = bodies_of(chance, batch)
            for _ in range(chance.choice((1, 2))):  # the second time as a replay of the batch
                query.write(batch, parts)
            wanted.update(body for part in parts for body in part)
            assert stored(cluster, topic) == wanted
            batch += 1
    print(f"{broker.cuts} cuts, {batch} batches")


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_rows_that_are_sent_are_found_by_a_replay_whatever_byte_a_cut_hits(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Each row is stored at least once, as at brokers of RocketMQ, and a replay without cuts sends nothing."""
    print(f"seed {seed}")
    chance, places = random.Random(seed), random.Random(-seed)
    topic, parts, cuts = f"sent-{seed}", bodies_of(chance, 0), CUTS_OF_SENDS

    def cut() -> int | None:
        return place_of_a_cut(places) if broker.cuts < cuts else None

    with between(cluster.names.port, cluster.running["a"].port, cut, counts_requests=True) as (names, broker):
        query = Query(monkeypatch, names.address, topic)
        query.write(0, parts, by_sends=True)
        print(f"{broker.cuts} cuts")
        cuts = 0
        found = stored(cluster, topic)
        assert set(found) == {body for part in parts for body in part}
        query.write(0, parts, by_sends=True)
        assert stored(cluster, topic) == found
