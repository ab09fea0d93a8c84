"""Spark through RocketFlow's broker, in turn with the same store by path and with Spark's Kafka connector.

Broker, Kafka and the session share the machine's cores. The source copies 1 KiB messages into `noop`; the sink appends
them, each batch once and synced, while Kafka's acknowledges with acks=all. The first round does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tests.bench.figures import Figure, ratio
from tests.bench.spark_cases import (
    KAFKA_SINK,
    KAFKA_SINK_TUNED,
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
from tests.support.servers import running, wait_for_a_broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_broker import KafkaBroker

SIZE: Final = 1024
COUNT: Final = 1_000_000
ROUNDS: Final = 6


def run(scale: float) -> Iterator[Figure]:
    with bench() as (home, spark, kafka), running("namesrv", home / "names") as names:
        data = SparkData(home / "data", SIZE, int(COUNT * scale))
        arguments = ("--set", f"storePathRootDir={data.store}", "--set", f"namesrvAddr={names.address}")
        with running("broker", home / "broker", *arguments):
            wait_for_a_broker(names.address)
            yield from _sources(spark, data, names.address, kafka)
            yield from _sinks(spark, data, names.address, kafka)


def _sources(spark: SparkSession, data: SparkData, names: str, kafka: KafkaBroker | None) -> Iterator[Figure]:
    options = {"subscribe": TOPIC, "startingOffsets": "earliest"}
    cases = [
        Case("network", "rocketflow", {"namesrvAddr": names, **options}, SEVEN),
        Case("path", "rocketflow", {"path": str(data.store), **options}, SEVEN),
    ]
    if kafka is not None:
        at = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        frame = for_kafka(spark.read.parquet(str(data.parquet)))
        frame.write.format("kafka").options(**at, topic="source", **KAFKA_SINK_TUNED).save()
        cases.append(Case("Kafka, default", "kafka", {**at, "subscribe": "source", "startingOffsets": "earliest"}))
    found = in_turn({case.label: lambda case=case: source_rate(spark, case) for case in cases}, ROUNDS)
    figures = {
        label: Figure(f"source {SIZE} B -> noop, {label}", "M rows/s", tuple(runs)) for label, runs in found.items()
    }
    yield from figures.values()
    for peer in list(figures)[1:]:
        yield ratio(figures["network"], figures[peer])


def _sinks(spark: SparkSession, data: SparkData, names: str, kafka: KafkaBroker | None) -> Iterator[Figure]:
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str((1 << 31) - 1))  # as the README recommends

    def rate(form: str, options: dict[str, str]) -> float:
        rows = parquet_stream(spark, data.parquet)
        return sink_rate(for_kafka(rows) if form == "kafka" else rows, Case("", form, options))

    measures: dict[str, object] = {
        "network, exactly once, synced": lambda: rate("rocketflow", {"namesrvAddr": names, "topic": "out"}),
    }
    if kafka is not None:
        at = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "sink"}
        measures["Kafka, default, acks=all"] = lambda: rate("kafka", {**at, **KAFKA_SINK})
        measures["Kafka, tuned, acks=all"] = lambda: rate("kafka", {**at, **KAFKA_SINK_TUNED})
    found = in_turn(measures, ROUNDS)
    figures = {label: Figure(f"{SIZE} B -> sink, {label}", "M rows/s", tuple(runs)) for label, runs in found.items()}
    yield from figures.values()
    for peer in list(figures)[1:]:
        yield ratio(figures["network, exactly once, synced"], figures[peer])
