"""Queries and jobs by path on the directory of a running broker, beside producers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketflow.spark.requeue import manual_requeue
from rocketflow.spark.requeue.manual_requeue import requeue_on_spark
from rocketflow.spark.requeue.requeue_arguments import RequeueJob
from rocketflow_store import StoreReader
from rocketflow_store.delivery.requeue.ledger import ledger
from rocketflow_store.delivery.requeue.requeue_run import RequeueRequest
from tests.support.servers import RunningServer, running_broker, send, store_of
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Run a broker; at the end it stops in order and its log has no traceback."""
    with running_broker(tmp_path_factory.mktemp("broker")) as found:
        yield found
        found.stop_in_order()


def stored(path: Path, topic: str) -> Counter[str]:
    with StoreReader(path) as reader:
        return Counter(
            body.decode()
            for queue in reader.queues(topic)
            for rows in reader.read(topic, queue, *reader.bounds(topic, queue), columns=["body"])
            for body in rows.column(0).to_pylist()
        )


@pytest.mark.skipif(LEVEL == "sample", reason="test_spark_beside_broker.py kills such a broker: RF_FAULTS=1 runs it")
def test_a_query_copies_messages_as_they_come_into_a_topic_that_producers_write(
    spark: SparkSession, broker: RunningServer, tmp_path: Path
) -> None:
    path, wanted = store_of(broker), Counter({"first": 1})
    send(broker, "in", ["first"])
    rows = spark.readStream.format("rocketflow").option("path", str(path)).option("subscribe", "in")
    copy = rows.option("startingOffsets", "earliest").load().select("body").writeStream.format("rocketflow")
    query = copy.options(path=str(path), topic="both", checkpointLocation=str(tmp_path / "c")).start()
    try:
        for turn in range(2):
            copied = [f"copied {turn} {number}" for number in range(30)]
            send(broker, "in", copied)
            send(broker, "both", [f"sent {turn} {number}" for number in range(30)])
            wanted.update(copied + [f"sent {turn} {number}" for number in range(30)])
            end = time.monotonic() + WAIT_SECONDS
            while stored(path, "both") != wanted:
                assert query.isActive, query.exception()
                assert time.monotonic() < end, stored(path, "both")
                time.sleep(0.02)
    finally:
        query.stop()
    assert stored(path, "both") == wanted


def test_a_batch_write_with_an_id_is_stored_once(spark: SparkSession, broker: RunningServer) -> None:
    path = store_of(broker)
    rows = spark.range(500).selectExpr("cast(id as string) as body").repartition(3)
    for _ in range(2):
        rows.write.format("rocketflow").options(path=str(path), topic="table", txnId="load-1").mode("append").save()
    assert stored(path, "table") == Counter(str(number) for number in range(500))


def test_a_requeue_by_hand_goes_through_the_broker_batch_by_batch(
    spark: SparkSession, broker: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, bodies = store_of(broker), [str(number) for number in range(250)]
    send(broker, "dead", bodies)
    monkeypatch.setattr(manual_requeue, "BATCH_ROWS", 100)
    job = RequeueJob(str(path), frozenset(), 0, None)
    request = RequeueRequest("r", "dead", "back")
    first, second = requeue_on_spark(spark, job, request), requeue_on_spark(spark, job, request)
    assert (first.rows, first.batches, first.total_rows, first.finished) == (250, 3, 250, True)
    assert (second.rows, second.total_rows, second.finished) == (0, 250, True)
    assert stored(path, "back") == Counter(bodies)
    with StoreReader(path) as reader:
        assert [one.as_dict()["rows"] for one in ledger(reader) if one.as_dict()["kind"] == "requeue"] == [
            0,
            100,
            100,
            50,
        ]
