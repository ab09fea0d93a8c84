"""The cases of the Spark benchmarks: RocketFlow's source and sink, and Kafka's through Spark's connector."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.parquet as pq

from rocketflow_store import MessageStore
from tests.support.bulk_rows import rows
from tests.support.kafka_broker import KafkaBroker, connector_jars
from tests.support.maven import JarsNotFetchedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TOPIC: Final = "rows"
PARTITIONS: Final = 4
BATCHES: Final = 4
SEVEN: Final = (
    "topic string, queueId int, queueOffset bigint, body binary, keys string, bornTimestamp timestamp, tags string"
)
KAFKA_SOURCE_TUNED: Final = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
KAFKA_SINK: Final = {"kafka.acks": "all"}
KAFKA_SINK_TUNED: Final = {
    **KAFKA_SINK,
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 << 10),
    "kafka.buffer.memory": str(256 << 20),
    "kafka.max.request.size": str(8 << 20),
}


ROUNDS: Final = 9
_FILES: Final = 8


class Bench(NamedTuple):
    """A session and a directory; `kafka` is None if its jars are not available."""

    home: Path
    spark: SparkSession
    kafka: KafkaBroker | None


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """Run Kafka's broker and a session with its connector, in a new directory."""
    from rocketflow.spark.session import build_session

    settings = {"spark.driver.memory": "3g"}
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as name, contextlib.ExitStack() as stack:
        home, kafka = Path(name), None
        try:
            settings["spark.jars"] = ",".join(map(str, connector_jars()))
            kafka = stack.enter_context(KafkaBroker(home / "kafka"))
        except JarsNotFetchedError as error:
            print(f"without Kafka: {error}", file=sys.stderr)
        spark = build_session("bench", "local[2]", settings)
        stack.callback(spark.stop)
        yield Bench(home, spark, kafka)


class SparkData:
    """The same rows as parquet files and as a store's topic of `PARTITIONS` queues."""

    def __init__(self, home: Path, size: int, count: int) -> None:
        self.home, self.size = home, size
        self.parquet, self.store = home / "parquet", home / "store"
        self.parquet.mkdir(parents=True)
        batch = rows(count // _FILES, size)
        with MessageStore.open(self.store) as store:
            store.create_topic(TOPIC, PARTITIONS)
            for number in range(_FILES):
                with pq.ParquetWriter(self.parquet / f"{number}.parquet", batch.schema, compression="none") as writer:
                    writer.write_batch(batch, row_group_size=1 << 16)
                store.append_batch(batch, topic=TOPIC)


def in_turn(measures: dict[str, object], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Run every measure once a round, after a sync of the previous one's writes; the first round warms up."""
    found: dict[str, list[float]] = {label: [] for label in measures}
    for number in range(rounds):
        for label, measure in measures.items():
            os.sync()
            rate = measure()  # type: ignore[operator]
            if number:
                found[label].append(rate)
    return found


@dataclass(frozen=True)
class Case:
    """A format with its options; `schema` selects the columns of a source."""

    label: str
    format: str
    options: dict[str, str] = field(default_factory=dict)
    schema: str | None = None


def source_rate(spark: SparkSession, case: Case) -> float:
    """Return the M rows/s of copying all rows of the source into `noop`, in one micro-batch."""
    reader = spark.readStream.format(case.format).options(**case.options)
    rows = (reader.schema(case.schema) if case.schema else reader).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return _rate(query)


def sink_rate(rows: DataFrame, case: Case) -> float:
    """Return the M rows/s of a stream into a sink."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.format(case.format).options(**case.options).option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return _rate(query)


def parquet_stream(spark: SparkSession, directory: Path) -> DataFrame:
    """Return a stream of the rows of a directory of parquet files, in `BATCHES` micro-batches."""
    files = len(list(directory.glob("*.parquet")))
    reader = spark.readStream.schema("body binary, keys string, tags string")
    return reader.option("maxFilesPerTrigger", files // BATCHES).parquet(str(directory))


def for_kafka(rows: DataFrame) -> DataFrame:
    """Rename the columns as Kafka's sink requires."""
    return rows.selectExpr("keys as key", "body as value")


def _rate(query: StreamingQuery) -> float:
    progress = [one for one in query.recentProgress if one["numInputRows"]]
    seconds = sum(one["durationMs"]["triggerExecution"] for one in progress) / 1000
    return float(sum(one["numInputRows"] for one in progress) / seconds / 1e6)
