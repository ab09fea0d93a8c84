"""The source into `noop` and the exactly-once, synced sink, in turn with Spark's Kafka connector if it is available.

All cases run in one session on the same rows; Kafka's broker and the session share the machine's cores. The first round
of each size does not count. Ratios are of medians of one run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tests.bench.figures import Figure, ratio
from tests.bench.spark_cases import (
    KAFKA_SINK_TUNED,
    KAFKA_SOURCE_TUNED,
    SEVEN,
    TOPIC,
    Case,
    SparkData,
    bench,
    for_kafka,
    in_turn,
    parquet_stream,
    sink_rate,
    source_rate,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.kafka_broker import KafkaBroker

SIZES: Final = ((200, 4_000_000), (1024, 1_000_000))


def run(scale: float) -> Iterator[Figure]:
    with bench() as (home, spark, kafka):
        for size, count in SIZES:
            data = SparkData(home / f"{size}", size, int(count * scale))
            yield from _sources(spark, data, kafka)
            yield from _sinks(spark, data, kafka)
            shutil.rmtree(data.home)


def _sources(spark: SparkSession, data: SparkData, broker: KafkaBroker | None) -> Iterator[Figure]:
    options = {"path": str(data.store), "subscribe": TOPIC, "startingOffsets": "earliest"}
    cases = [
        Case("Kafka's seven columns", "rocketflow", options, SEVEN),
        Case("body + queueOffset", "rocketflow", options, "queueOffset bigint, body binary"),
        Case("all 20 columns", "rocketflow", options),
    ]
    topic = f"source{data.size}"
    if broker is not None:
        kafka = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        frame = for_kafka(spark.read.parquet(str(data.parquet)))
        filled = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, **KAFKA_SINK_TUNED}
        frame.write.format("kafka").options(**filled).save()
        cases += [Case("Kafka, default", "kafka", kafka), Case("Kafka, tuned", "kafka", kafka | KAFKA_SOURCE_TUNED)]
    found = in_turn({case.label: lambda case=case: source_rate(spark, case) for case in cases})
    figures = {
        label: Figure(f"source {data.size} B -> noop, {label}", "M rows/s", tuple(runs))
        for label, runs in found.items()
    }
    yield from figures.values()
    if broker is not None:
        for peer in ("Kafka, default", "Kafka, tuned"):
            yield ratio(figures["Kafka's seven columns"], figures[peer])


def _sinks(spark: SparkSession, data: SparkData, broker: KafkaBroker | None) -> Iterator[Figure]:
    """Append in every round to the same store, and to the same Kafka topic."""

    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1))  # as the README recommends

    def rocketflow_rate(target: Path, options: dict[str, str]) -> float:
        into = Case("", "rocketflow", {"path": str(target), "topic": "out", **options})
        return sink_rate(parquet_stream(spark, data.parquet), into)

    measures: dict[str, object] = {
        "exactly once, synced, directIO": lambda: rocketflow_rate(data.home / "direct", {"directIO": "true"}),
        "exactly once, synced": lambda: rocketflow_rate(data.home / "cached", {}),
    }
    if broker is not None:
        kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": f"sink{data.size}", **KAFKA_SINK_TUNED}
        measures["Kafka, tuned, acks=all"] = lambda: sink_rate(
            for_kafka(parquet_stream(spark, data.parquet)), Case("", "kafka", kafka)
        )
    figures = [
        Figure(f"sink {data.size} B, {label}", "M rows/s", tuple(runs)) for label, runs in in_turn(measures).items()
    ]
    yield from figures
    if broker is not None:
        yield ratio(figures[0], figures[-1])
        yield ratio(figures[1], figures[-1])
