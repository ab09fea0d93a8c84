"""Streams through Spark: checkpoints, limits, projections, lag, and the errors that a user sees."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

from rocketflow.spark.data_source import RocketFlowDataSource
from rocketflow.spark.source.lag_listener import LagListener
from rocketflow_store import MessageStore, StoreError
from tests.support.spark_stores import append, numbered, small_config
from tests.support.trials import LEVEL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark


class Copy:
    """A query that copies a store's messages into JSON files, exactly once, and its checkpoint."""

    def __init__(self, spark: SparkSession, root: Path, store: Path | str, **options: str) -> None:
        self.spark, self.root, self.store = spark, root, store
        self.options = {"startingOffsets": "earliest", **options}

    def run(self, schema: str | None = None, **more: str) -> list[int]:
        """Read all messages, as one run; return the rows of each of its batches."""
        query = self.start(schema, **more)
        assert query.awaitTermination(120)
        return [one.numInputRows for one in query.recentProgress if one.numInputRows]

    def start(self, schema: str | None = None, **more: str) -> StreamingQuery:
        reader = self.spark.readStream.format("rocketflow").options(**{**self.options, **more})
        if schema is not None:
            reader = reader.schema(schema)
        rows = reader.load(str(self.store)).selectExpr("topic", "queueId", "queueOffset", "CAST(body AS STRING) body")
        return (
            rows.writeStream.format("json")
            .option("path", str(self.root / "out"))
            .option("checkpointLocation", str(self.root / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    def rows(self) -> list[Any]:
        schema = "topic string, queueId int, queueOffset bigint, body string"
        return self.spark.read.schema(schema).json(str(self.root / "out")).collect()

    def bodies(self) -> list[int]:
        return sorted(int(row.body) for row in self.rows())


def test_available_now_with_limits_and_restarts_from_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "s"
    append(store, numbered("orders", range(250)))
    copy = Copy(spark, tmp_path, store, subscribePattern="orders.*", maxOffsetsPerTrigger="100")
    assert copy.run() == [100, 100, 50]
    append(store, [*numbered("orders", range(250, 300)), *numbered("orders-2", range(300, 330), queues=2)])
    assert sum(copy.run(schema="body binary, queueOffset bigint, topic string, queueId int")) == 80
    assert copy.run() == []
    assert copy.bodies() == list(range(330))
    assert max(Counter((row.topic, row.queueId, row.queueOffset) for row in copy.rows()).values()) == 1


@pytest.mark.skipif(LEVEL == "sample", reason="test_spark_kills.py replays a batch (P01 a): RF_FAULTS=1 runs it")
def test_a_replayed_batch_reads_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "s"
    append(store, numbered("orders", range(100)))
    copy = Copy(spark, tmp_path, store, subscribe="orders", maxOffsetsPerTrigger="60")
    assert copy.run() == [60, 40]
    append(store, numbered("orders", range(100, 130)))
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "out" / "_spark_metadata" / "1").unlink()
    copy.run(minPartitions="3")
    assert copy.bodies() == list(range(130))


def test_stream_reads_messages_of_an_open_writer(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "s"
    with MessageStore.open(store, small_config(store)) as writer:
        writer.put_messages(numbered("orders", range(40)))
        query = (
            spark.readStream.format("rocketflow")
            .option("subscribe", "orders")
            .option("startingOffsets", "earliest")
            .load(str(store))
            .selectExpr("CAST(body AS STRING) body")
            .writeStream.format("memory")
            .queryName("followed")
            .start()
        )
        try:
            query.processAllAvailable()
            writer.put_messages(numbered("orders", range(40, 90), queues=6))
            query.processAllAvailable()
            rows = spark.sql("SELECT body FROM followed").collect()
        finally:
            query.stop()
    assert sorted(int(row.body) for row in rows) == list(range(90))


def test_lag_reaches_the_listener_and_the_group_file(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "s"
    append(store, numbered("orders", range(100)))
    totals: list[int] = []
    listener = LagListener(lambda _, lags: totals.append(sum(lag.messages for lag in lags.values())))
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the progress of earlier queries
    spark.streams.addListener(listener)
    try:
        Copy(spark, tmp_path, store, subscribe="orders", maxOffsetsPerTrigger="40", consumerGroup="reports").run()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    assert [total for total in totals if total in (60, 20, 0)][:3] == [60, 20, 0]
    table = json.loads((store / "config" / "consumerOffset.json").read_text())["offsetTable"]
    assert table["orders@reports"] == {"0": 25, "1": 25, "2": 25, "3": 25}


def failure(start: Callable[[], StreamingQuery]) -> str:
    with pytest.raises(StreamingQueryException) as caught:
        start().awaitTermination(120)
    return str(caught.value)


def test_a_cut_log_fails_the_query_and_names_the_place(spark: SparkSession, tmp_path: Path) -> None:
    store, kept = tmp_path / "s", tmp_path / "kept"
    append(store, numbered("orders", range(200), queues=1))
    shutil.copytree(store, kept)
    append(store, numbered("orders", range(200, 300), queues=1))
    copy = Copy(spark, tmp_path, store, subscribe="orders")
    copy.run()
    shutil.rmtree(store)
    shutil.copytree(kept, store)
    append(store, numbered("orders", range(900, 1100), queues=1))
    message = failure(copy.start)
    assert "data loss: topic orders queue 0: the last message read, at offset 299, is another one now" in message
    assert "[0, 400)" in message
    copy.run(failOnDataLoss="false")
    assert copy.bodies() == [*range(300), *range(1000, 1100)]


def test_a_stream_on_lost_queues_names_the_rebuild(spark: SparkSession, tmp_path: Path) -> None:
    store = tmp_path / "s"
    append(store, numbered("orders", range(200), queues=2))
    shutil.rmtree(store / "consumequeue")
    message = failure(Copy(spark, tmp_path, store, subscribe="orders").start)
    assert "data loss: topic orders queue 0" in message
    assert "rocketflow store rebuild" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"maxOffsetPerTrigger": "5"}, "unknown option 'maxOffsetPerTrigger': did you mean maxOffsetsPerTrigger?"),
        ({"maxOffsetsPerTrigger": "five"}, "option maxOffsetsPerTrigger='five': allowed is a whole number"),
        ({"namesrvAddr": "h:9876"}, "exclude each other"),
        ({"sql": "a >"}, "filter 'a >'"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, str], message: str) -> None:
    """Spark's worker makes the reader in the same way."""
    append(tmp_path / "s", numbered("orders", range(4)))
    asked = RocketFlowDataSource({"path": str(tmp_path / "s"), "subscribe": "orders", **options})
    with pytest.raises(StoreError) as caught:
        asked.streamReader(asked.schema())
    assert message in str(caught.value)


def test_query_with_a_wrong_option_fails_at_its_start(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "s", numbered("orders", range(4)))
    copy = Copy(spark, tmp_path, tmp_path / "s", subscribe="orders")
    assert "did you mean maxOffsetsPerTrigger?" in failure(lambda: copy.start(maxOffsetPerTrigger="5"))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("body binary, queueOfset bigint", "unknown column 'queueOfset'"),
        ("body binary, queueId bigint", "column queueId is int, not bigint"),
    ],
)
def test_wrong_columns_are_named(spark: SparkSession, tmp_path: Path, schema: str, message: str) -> None:
    append(tmp_path / "s", numbered("orders", range(4)))
    asked = RocketFlowDataSource({"path": str(tmp_path / "s"), "subscribe": "orders"})
    with pytest.raises(StoreError) as caught:
        asked.streamReader(StructType.fromDDL(schema))
    assert message in str(caught.value)


def test_path_that_is_no_store_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    cases = [("nowhere", "does not exist"), ("file", "is a file"), ("empty", "no topics")]
    for name, why in cases if LEVEL != "sample" else cases[:1]:
        copy = Copy(spark, tmp_path / f"query-{name}", tmp_path / name, subscribe="x")
        assert why in failure(copy.start)
