"""The source into `noop`, and the exactly-once, synced sink."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow_store import MessageStore
from tests.bench.data import rows
from tests.bench.figures import Figure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RUNS = 4
SEVEN = "topic string, queueId int, queueOffset bigint, body binary, keys string, bornTimestamp timestamp, tags string"
SCHEMAS = {
    "Kafka's seven columns": SEVEN,
    "body + queueOffset": "queueOffset bigint, body binary",
    "all 20 columns": None,
}


def run(scale: float) -> Iterator[Figure]:
    from rocketflow.spark.session import build_session

    spark = build_session("bench", "local[2]", {"spark.driver.memory": "3g"})
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        for size, count in ((200, int(2_000_000 * scale)), (1024, int(800_000 * scale))):
            path = Path(home) / f"s{size}"
            batch = rows(count // 4, size)
            with MessageStore.open(path) as store:
                for _ in range(4):
                    store.append_batch(batch, topic="t")
            yield from _source(spark, path, size)
            yield from _sink(spark, path, Path(home), size)
            shutil.rmtree(path)
    spark.stop()


def _rate(query: StreamingQuery) -> float:
    """Rows/s over the trigger executions of a query."""
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    seconds = sum(one["durationMs"]["triggerExecution"] for one in progress) / 1000
    return sum(one["numInputRows"] for one in progress) / seconds / 1e6


def _source(spark: SparkSession, path: Path, size: int) -> Iterator[Figure]:
    runs: dict[str, list[float]] = {label: [] for label in SCHEMAS}
    for number in range(RUNS + 1):
        for label, schema in SCHEMAS.items():
            reader = spark.readStream.format("rocketflow").option("path", str(path)).option("subscribe", "t")
            reader = reader.option("startingOffsets", "earliest")
            rows_read = (reader.schema(schema) if schema else reader).load()
            with tempfile.TemporaryDirectory() as checkpoint:
                query = (
                    rows_read.writeStream.format("noop")
                    .option("checkpointLocation", checkpoint)
                    .trigger(availableNow=True)
                    .start()
                )
                query.awaitTermination()
                if number:
                    runs[label].append(_rate(query))
    for label, found in runs.items():
        yield Figure(f"source {size} B -> noop, {label}", "M rows/s", tuple(found))


def _sink(spark: SparkSession, path: Path, home: Path, size: int) -> Iterator[Figure]:
    parquet = home / f"p{size}"
    frame = spark.read.format("rocketflow").option("path", str(path)).option("subscribe", "t").load()
    frame.select("body", "keys", "tags").repartition(8).write.parquet(str(parquet))
    found = []
    for number in range(RUNS):
        target = home / "out"
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory() as checkpoint:
            query = (
                spark.readStream.schema("body binary, keys string, tags string")
                .option("maxFilesPerTrigger", 2)
                .parquet(str(parquet))
                .writeStream.format("rocketflow")
                .option("path", str(target))
                .option("topic", "out")
                .option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            began = time.perf_counter()
            query.awaitTermination()
            assert time.perf_counter() > began
            if number:
                found.append(_rate(query))
    shutil.rmtree(home / "out", ignore_errors=True)
    yield Figure(f"sink {size} B, exactly once, synced", "M rows/s", tuple(found))
