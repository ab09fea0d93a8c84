"""Queries of Spark through brokers: batches, streams, restarts, and moves between path and brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.errors import ClientError, NoNameServerError
from rocketflow.client.options import ClientOptions
from rocketflow.client.sync.bridge import LOOP
from rocketflow.errors import UsageError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.spark.stream.stream_job import parse_arguments, preflight, run
from rocketflow_store import StoreReader
from tests.support.network_stores import Brokers, brokers, write
from tests.support.servers import send
from tests.support.spark_stores import numbered
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = "topic string, queueId int, queueOffset bigint, body binary, tags string, physicalOffset bigint"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Run a broker over a store that was written before."""
    home = tmp_path_factory.mktemp("query")
    write(home / "a", numbered("orders", range(3000)))
    with brokers(home) as found:
        found.start("a")
        yield found


def test_a_batch_read_gives_the_rows_of_the_path(spark: SparkSession, cluster: Brokers) -> None:
    options = {"subscribe": "orders", "minPartitions": "3", "includeProperties": "true"}
    by_path = spark.read.format("rocketflow").options(**options).load(f"a={cluster.store('a')}").toArrow()
    found = spark.read.format("rocketflow").options(**options, namesrvAddr=cluster.address).load().toArrow()
    order = [("queueId", "ascending"), ("queueOffset", "ascending")]
    assert found.num_rows == 3000
    assert found.sort_by(order) == by_path.sort_by(order)


def test_a_stream_restarts_and_moves_between_path_and_brokers(
    spark: SparkSession, cluster: Brokers, tmp_path: Path
) -> None:
    broker = cluster.running["a"]

    def copy(**place: str) -> list[int]:
        rows = spark.readStream.format("rocketflow").options(
            subscribe="moving", startingOffsets="earliest", maxOffsetsPerTrigger="40", **place
        )
        query = (
            rows.schema("topic string, queueOffset bigint, body binary")
            .load()
            .selectExpr("CAST(body AS STRING) body")
            .writeStream.format("json")
            .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return sorted(int(row.body) for row in spark.read.schema("body string").json(str(tmp_path / "out")).collect())

    send(broker, "moving", [str(number) for number in range(100)])
    assert copy(namesrvAddr=cluster.address) == list(range(100))
    send(broker, "moving", [str(number) for number in range(100, 150)])
    assert copy(path=f"a={cluster.store('a')}") == list(range(150))
    if LEVEL == "sample":  # test_network_reads.py plans more moves, without Spark
        return
    send(broker, "moving", [str(number) for number in range(150, 170)])
    assert copy(namesrvAddr=cluster.address) == list(range(170))


@pytest.mark.skipif(LEVEL == "sample", reason="a Spark of its own: RF_FAULTS=1 runs it")
def test_the_stream_job_takes_addresses(spark: SparkSession, cluster: Brokers, tmp_path: Path) -> None:
    words = ["--source", cluster.address, "--sink", cluster.address, "--checkpoint", str(tmp_path / "c")]
    job = parse_arguments([*words, "--subscribe", "orders", "--topic", "copied", "--sink-option", "queues=2"])
    preflight(job)
    assert run(spark, job).rows == 3000
    with StoreReader(cluster.store("a")) as reader:
        assert sum(reader.max_offset("copied", queue) for queue in (0, 1)) == 3000
    with pytest.raises(UsageError, match=r"no topic oders in the store \(did you mean orders\?\)"):
        preflight(replace(job, subscribe="oders"))
    with pytest.raises(NoNameServerError, match=r"127\.0\.0\.1:1"):
        preflight(replace(job, source="127.0.0.1:1"))


def test_a_running_query_follows_the_broker_and_publishes_its_progress(
    spark: SparkSession, cluster: Brokers, tmp_path: Path
) -> None:
    broker = cluster.running["a"]
    send(broker, "followed", ["0"])
    rows = spark.readStream.format("rocketflow").options(
        subscribe="followed", startingOffsets="earliest", namesrvAddr=cluster.address, consumerGroup="spark-query"
    )
    query = rows.load().selectExpr("CAST(body AS STRING) body").writeStream.format("memory").queryName("followed")
    running = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        running.processAllAvailable()
        send(broker, "followed", [str(number) for number in range(1, 60)])
        running.processAllAvailable()
        found = sorted(int(row.body) for row in spark.sql("SELECT body FROM followed").collect())
        progress = running.lastProgress
        wait_for_progress(cluster, "spark-query", "followed", 60)
        assert running.isActive
    finally:
        running.stop()
    assert found == list(range(60))
    assert progress is not None
    assert '"messages": 0' in progress.sources[0].latestOffset or '"messages":0' in progress.sources[0].latestOffset
    with StoreReader(cluster.store("a")) as reader:
        assert "%RETRY%spark-query" in reader.listed_topics()


def wait_for_progress(cluster: Brokers, group: str, topic: str, offset: int) -> None:
    """Wait until the broker answers an offset as that of a group in queue 0 of a topic, with no message left."""

    async def wait() -> None:
        async with AdminClient(ClientOptions(name_servers=cluster.address)) as admin, asyncio.timeout(60):
            while True:
                with suppress(ClientError):  # the group has committed nothing yet
                    stats = await admin.consume_stats(group)
                    found = stats.queues.get(MessageQueue(topic, "a", 0))
                    if found is not None and found.consumer_offset == offset and stats.lag == 0:
                        return
                await asyncio.sleep(0.05)

    LOOP.wait(wait())
