"""The sink over the network to RocketFlow's broker: parts are sent, a batch is committed once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from rocketflow.client.store_client import StoreClient
from rocketflow.errors import RocketFlowError
from rocketflow.remoting.headers.rocketflow import UNKNOWN_SIZE, StagePartRequestHeader
from rocketflow.spark.shared.network_options import Network
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.spark.sink.remote_store import RemoteStore
from rocketflow.spark.sink.sent_parts import Pieces
from rocketflow.spark.sink.target import find_target
from rocketflow.store_writes import BrokerError
from rocketflow_store import StoreReader
from tests.support.network_stores import Brokers, brokers
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker with an empty store."""
    with brokers(tmp_path_factory.mktemp("sink")) as found:
        found.start("a")
        yield found


def stored(cluster: Brokers, topic: str, name: str = "a") -> list[dict[str, Any]]:
    with StoreReader(cluster.store(name)) as reader:
        return [
            row
            for queue in reader.queues(topic)
            for rows in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body", "tags", "queueId"])
            for row in rows.to_pylist()
        ]


def bodies(cluster: Brokers, topic: str) -> Counter[str]:
    return Counter(row["body"].decode() for row in stored(cluster, topic))


def test_a_batch_write_with_an_id_is_stored_once(spark: SparkSession, cluster: Brokers) -> None:
    rows = spark.range(700).selectExpr("cast(id as string) as body", "'x' as tags").repartition(3)
    options = {"namesrvAddr": cluster.address, "topic": "table", "txnId": "load-1", "queues": "3"}
    for _ in range(2):
        rows.write.format("rocketflow").options(**options).mode("append").save()
    assert bodies(cluster, "table") == Counter(str(number) for number in range(700))
    assert {(row["tags"], row["queueId"]) for row in stored(cluster, "table")} == {("x", 0), ("x", 1), ("x", 2)}
    more = spark.range(701).selectExpr("cast(id as string) as body", "'x' as tags")
    with pytest.raises(Exception, match="committed with 700 rows"):
        more.write.format("rocketflow").options(**options).mode("append").save()
    assert sum(bodies(cluster, "table").values()) == 700


@pytest.mark.skipif(LEVEL == "sample", reason="test_spark_beside_broker.py kills it too: RF_FAULTS=1 runs it")
def test_a_query_is_exact_although_its_broker_is_killed(spark: SparkSession, cluster: Brokers, tmp_path: Path) -> None:
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch="300", numPartitions="2")
    options = {"namesrvAddr": cluster.address, "topic": "rated", "checkpointLocation": str(tmp_path / "c")}
    query = (
        source.load().selectExpr("cast(value as string) as body").writeStream.format("rocketflow").options(**options)
    ).start()
    try:
        for kill in (True, False):
            seen = sum(bodies(cluster, "rated").values())
            for _ in range(600):
                if sum(bodies(cluster, "rated").values()) > seen + 900:
                    break
                assert query.isActive, query.exception()
                threading.Event().wait(0.1)
            if kill:
                cluster.running["a"].kill()
                cluster.start_again("a")
    finally:
        query.stop()
    assert query.exception() is None
    found = bodies(cluster, "rated")
    assert len(found) > 1800
    assert found == Counter(str(number) for number in range(len(found)))


def test_pieces_of_a_part_may_come_again_but_none_may_be_missing(cluster: Brokers) -> None:
    client = StoreClient(cluster.running["a"].address)
    header = StagePartRequestHeader(sink_id="pieces", batch_id=0, run_id="r", file="part")
    data = bytes(range(256)) * 40_000

    def sent(piece: bytes, position: int, size: int) -> None:
        asked = msgspec.structs.replace(header, position=position, size=size)
        assert client.stage(asked, piece) == client.stage(asked, piece) == 1

    pieces = Pieces(sent)
    with client.connected():
        pieces.add(memoryview(data[:5_000_000]))
        pieces.add(memoryview(data[5_000_000:]))
        pieces.end()
    staged = cluster.store("a") / "rocketflow" / "staging" / "pieces" / "000000000000" / "part"
    assert staged.read_bytes() == data
    assert client.stage(StagePartRequestHeader(sink_id="pieces", batch_id=0, run_id="s")) == 2
    for wrong, why in (
        ({"sink_id": "a/b"}, "sinkId"),
        ({"file": "../x"}, "file"),
        ({"run_id": "x" * 500}, "runId"),
    ):
        fields = {"sink_id": "pieces", "batch_id": 0, "run_id": "r", "file": "other", **wrong}
        with pytest.raises(RocketFlowError, match=why):
            client.stage(StagePartRequestHeader(**fields, size=3), b"abc")
    late = StagePartRequestHeader(sink_id="pieces", batch_id=0, run_id="r", file="late", position=3, size=6)
    with pytest.raises(RocketFlowError, match="bytes before 3 are missing"):
        client.stage(late, b"abc")


@pytest.mark.parametrize("size", [1, 9, 10, 11, 20, 95])
def test_only_the_last_piece_says_the_size_of_a_part(size: int) -> None:
    data, found = bytes(range(size)), []
    for step in (1, 7, 10, 100):
        pieces = Pieces(lambda *piece: found.append(piece), piece_bytes=10)
        for begin in range(0, size, step):
            pieces.add(memoryview(data[begin : begin + step]))
        pieces.end()
        *before, last = found
        assert b"".join(piece for piece, _, _ in found) == data
        assert [position for _, position, _ in found] == [*range(0, size, 10)]
        assert {known for _, _, known in before} <= {UNKNOWN_SIZE}
        assert last[2] == size
        found.clear()


def test_the_broker_to_commit_to_has_to_be_clear(tmp_path: Path) -> None:
    with brokers(tmp_path) as two:
        network = Network(two.address, timeout_ms=100)
        with pytest.raises(OptionError, match="no broker is registered"):
            find_target(network, None)
        with pytest.raises(BrokerError, match=r"127\.0\.0\.1:1"):
            find_target(Network("127.0.0.1:1", timeout_ms=100), None)
        first, second = two.start("x"), two.start("y")
        with pytest.raises(OptionError, match=r"brokerName is missing.*x, y"):
            find_target(network, None)
        assert find_target(network, "x") == first.address
        two.stop("x")
        assert find_target(network, None) == second.address
        with pytest.raises(BrokerError, match="networkTimeout"):
            RemoteStore(network, first.address).info()
