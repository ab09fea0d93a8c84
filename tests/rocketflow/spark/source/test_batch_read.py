"""Batch reads: start and end, and push-down of a WHERE, which reads less and returns the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from rocketflow.spark.data_source import RocketFlowDataSource
from rocketflow.spark.source.batch_reader import RocketFlowBatchReader
from rocketflow.spark.source.columns import Projection, source_schema
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow_store import MessageStore, StoreError
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.model.message import MessageBatch
from tests.support.spark_stores import append, numbered, small_config
from tests.support.trials import LEVEL, SEED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batch") / "s"
    append(path, [*numbered("orders", range(400)), *numbered("other", range(400, 500), queues=2)])
    append(path, numbered("orders", range(500, 600)))
    return path


def load(spark: SparkSession, store: Path | str, **options: str) -> DataFrame:
    return spark.read.format("rocketflow").options(**{"subscribe": "orders", **options}).load(str(store))


def bodies(rows: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in rows.select("body").collect())


ORDERS = [*range(400), *range(500, 600)]


def test_read_returns_all_messages_or_those_between_offsets(spark: SparkSession, store: Path) -> None:
    assert bodies(load(spark, store)) == ORDERS
    some = {"orders": {"0": 10, "1": -2, "2": 0, "3": 5}}
    ends = {"orders": {"0": 12, "1": 1, "2": 0, "3": -1}}
    rows = load(spark, store, startingOffsets=json.dumps(some), endingOffsets=json.dumps(ends))
    assert bodies(rows) == sorted([40, 44, 1, *[number for number in ORDERS if number % 4 == 3][5:]])


def test_read_starts_and_ends_at_a_store_time(spark: SparkSession, store: Path) -> None:
    times = {int(row.body): row.storeTimestamp for row in load(spark, store).select("body", "storeTimestamp").collect()}
    middle = times[500]
    rows = load(
        spark,
        store,
        startingTimestamp=str(round(middle.timestamp() * 1000)),
        startingOffsetsByTimestampStrategy="latest",
    )
    assert bodies(rows) == [number for number in ORDERS if times[number] >= middle]
    before = load(spark, store, endingTimestamp=str(round(middle.timestamp() * 1000)))
    assert bodies(before) == [number for number in ORDERS if times[number] < middle]


@pytest.mark.parametrize(
    "where",
    [
        "topic = 'other'",
        "topic IN ('other', 'nope') AND queueId = 1",
        "queueId IN (0, 2) AND queueOffset >= 20 AND queueOffset < 23",
        "queueId > 1 AND queueId <= 3 AND queueOffset = 7",
        "queueOffset IN (1, 5, 90)",
        "keys = 'k3'",
        "keys = 'k3' AND queueId = 1 AND topic = 'orders'",
        "keys IN ('k3', 'k7') AND queueOffset > 50",
        "keys = 'k3' OR queueId = 0",
        "keys = 'not there'",
        "NOT (queueId = 1)",
        "queueId <> 1 AND topic <> 'other'",
        "storeTimestamp > timestamp'2020-01-01' AND storeTimestamp <= timestamp'2100-01-01' AND queueId = 2",
        "storeTimestamp < timestamp'2020-01-01'",
        "tags = 'a' AND queueId < 2",
        "queueId = 1 AND queueId = 2",
    ][SEED % 3 if LEVEL == "sample" else 0 :: 3 if LEVEL == "sample" else 1],
)
def test_where_returns_the_same_rows_with_and_without_push_down(spark: SparkSession, store: Path, where: str) -> None:
    every = spark.read.format("rocketflow").option("subscribePattern", ".*")
    plain = bodies(every.load(str(store)).where(where))
    assert bodies(every.option("pushDownPredicate", "true").load(str(store)).where(where)) == plain
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert bodies(every.option("pushDownPredicate", "false").load(str(store)).where(where)) == plain
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_one_load_is_filtered_in_many_ways(spark: SparkSession, store: Path) -> None:
    """With push-down, Spark would apply the range of one WHERE to all other uses of the same rows."""
    rows = load(spark, store, subscribe="orders,other").select("topic", "queueId", "queueOffset")
    orders, other = rows.where("topic = 'orders'"), rows.where("topic = 'other'")
    assert [one.count() for one in (rows, other, rows, orders)] == [600, 100, 600, 500]
    assert other.union(orders).groupBy("topic").count().collect() == [("other", 100), ("orders", 500)]
    both = other.alias("a").join(orders.alias("b"), ["queueId", "queueOffset"]).select("a.topic", "b.topic").distinct()
    assert both.collect() == [("other", "orders")]
    assert rows.exceptAll(rows.where("queueId = 1")).count() == rows.where("queueId <> 1").count() > 0
    rows.createOrReplaceTempView("rows_of_orders")
    counted = spark.sql(
        "SELECT (SELECT count(*) FROM rows_of_orders WHERE queueId = 1),"
        " (SELECT count(*) FROM rows_of_orders WHERE queueOffset < 10), count(*) FROM rows_of_orders"
    ).first()
    spark.catalog.dropTempView("rows_of_orders")
    assert tuple(counted or ()) == (175, 60, 600)


def planned_rows(store: Path, filters: list[Any]) -> int:
    given = {"path": str(store), "subscribePattern": ".*", "pushDownPredicate": "true"}
    options = SourceOptions.parse(given, streaming=False)
    reader = RocketFlowBatchReader(options, Projection.of(source_schema(False)))
    list(reader.pushFilters(filters))
    return sum(one.rows for task in reader.partitions() for one in task.ranges)  # type: ignore[attr-defined]


def test_where_narrows_the_planned_rows(store: Path) -> None:
    from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual

    assert planned_rows(store, []) == 600
    assert planned_rows(store, [EqualTo(("topic",), "other"), EqualTo(("queueId",), 1)]) == 50
    assert planned_rows(store, [GreaterThanOrEqual(("queueOffset",), 120)]) == 20
    expected = sum(1 for number in range(600) if number % 10 == 3)
    assert planned_rows(store, [EqualTo(("keys",), "k3")]) in range(expected, expected + 10)
    assert planned_rows(store, [EqualTo(("keys",), "nope")]) < 10


def test_key_after_the_end_of_the_index_is_found(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "s"
    append(path, numbered("orders", range(100)))
    with MessageStore.open(path, small_config(path)) as writer:
        writer.put_messages(numbered("orders", range(100, 150)))
        rows = load(spark, path, pushDownPredicate="true")
        assert bodies(rows.where("keys = 'k4'")) == list(range(4, 150, 10))


def test_tags_and_sql_filter_a_read_of_several_stores(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    append(tmp_path / "b", numbered("orders", range(1000, 1010)))
    both = load(
        spark, f"a={store},b={tmp_path / 'b'}", includeProperties="true", tags="b", sql="n BETWEEN 590 AND 1004"
    )
    found = {(int(row.body), row.brokerName, row.properties["n"]) for row in both.collect()}
    expected = {(number, "a", str(number)) for number in range(591, 600, 2)}
    assert found == expected | {(number, "b", str(number)) for number in (1001, 1003)}


def test_partition_options_set_the_number_of_partitions(spark: SparkSession, store: Path) -> None:
    assert load(spark, store, minPartitions="7").rdd.getNumPartitions() == 7
    assert load(spark, store, maxRecordsPerPartition="100").rdd.getNumPartitions() == 5
    assert load(spark, store).rdd.getNumPartitions() == 1


def test_temporary_view_using_rocketflow_reads_the_topic(spark: SparkSession, store: Path) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW orders_by_sql USING rocketflow OPTIONS (path '{store}', subscribe 'orders')")
    try:
        assert spark.sql("SELECT count(*) n FROM orders_by_sql WHERE tags = 'b'").first()["n"] == 250
    finally:
        spark.catalog.dropTempView("orders_by_sql")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "oders"}, "no topic oders in the store (did you mean orders?)"),
        ({"startingOffsets": "latest"}, "option startingOffsets='latest': allowed is earliest or JSON in a batch read"),
        ({"unknown": "1"}, "unknown option 'unknown'"),
        ({"subscribePattern": ".*"}, "subscribe and subscribePattern are given"),
        ({"endingOffsets": '{"orders": {"0": 99999}}'}, "names no number for topic orders queue 1"),
    ],
)
def test_wrong_option_is_named_in_the_error(store: Path, options: dict[str, str], message: str) -> None:
    """Spark's worker plans a read in the same way."""
    asked = RocketFlowDataSource({"path": str(store), "subscribe": "orders", **options})
    with pytest.raises(StoreError) as caught:
        asked.reader(asked.schema()).partitions()
    assert message in str(caught.value)


def test_read_with_a_wrong_option_fails(spark: SparkSession, store: Path) -> None:
    with pytest.raises(PySparkException, match=r"no topic oders in the store \(did you mean orders\?\)"):
        load(spark, store, subscribe="oders").collect()


def test_a_batch_topic_is_read_message_by_message(spark: SparkSession, tmp_path: Path) -> None:
    path, total = tmp_path / "s", 0
    with MessageStore.open(path, small_config(path)) as opened:
        opened.create_topic("batches", 1, queue_type="BatchCQ")
        for count in (3, 200, 1, 50):
            entries = [BatchEntry(0, b"%d" % (total + at), b"KEYS\x01k%d\x02" % at) for at in range(count)]
            assert opened.put_message(MessageBatch("batches", encode_batch_body(entries), queue_id=0)).stored
            total += count
    options = {"subscribe": "batches", "minPartitions": "3"}
    assert bodies(load(spark, path, **options)) == list(range(total))
    some = {"startingOffsets": '{"batches": {"0": 100}}', "endingOffsets": '{"batches": {"0": 210}}'}
    rows = load(spark, path, **options, **some).select("queueOffset", "body", "keys").collect()
    assert sorted((row.queueOffset, int(row.body)) for row in rows) == [(at, at) for at in range(100, 210)]
    assert {row["keys"] for row in rows if row.queueOffset >= 204} == {f"k{at - 204}" for at in range(204, 210)}
    options["startingOffsets"] = "earliest"
    bounded = spark.readStream.format("rocketflow").options(**options, maxOffsetsPerTrigger="70").load(str(path))
    query = bounded.writeStream.format("memory").queryName("all_of_batches").trigger(availableNow=True).start()
    query.awaitTermination(60)
    assert bodies(spark.table("all_of_batches")) == list(range(total))
