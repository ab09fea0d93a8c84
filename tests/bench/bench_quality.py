"""Flights through a suite of ten expectations, in turn with the same stream unchecked and with GX run per batch.

All three read the same topic and write to a store exactly once. The peer follows the documentation of Great
Expectations: a ValidationDefinition runs on each (cached) batch, then a second pass splits the rows by the predicates
in its results. A stream of checks runs for days, so the first rounds, in which the JVM compiles shared code
(`WARM_UP`), and the first batch of each query do not count. Ratios are of medians of one run.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store import MessageStore
from tests.bench.figures import Figure, ratio
from tests.support.flight_rules import SUITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROUNDS: Final = 5
WARM_UP: Final = (4, 1, 1)
"""Rounds of each size that are not counted; the JVM is one for all."""
SIZES: Final = ((110_000, 330_000), (10_000, 80_000), (1_000, 20_000))
"""(rows a batch, rows in all)"""


def run(scale: float) -> Iterator[Figure]:
    from rocketflow.quality.jobs.session import quality_session

    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        spark = quality_session("bench", "local[2]")
        try:
            for (batch, total), warm_up in zip(SIZES, WARM_UP, strict=True):
                yield from _compared(spark, Path(home) / str(batch), batch, int(total * scale), warm_up)
        finally:
            spark.stop()


def _compared(spark: SparkSession, home: Path, batch: int, total: int, warm_up: int) -> Iterator[Figure]:
    from rocketflow.demo.flights import as_messages, load_flights

    source = home / "source"
    with MessageStore.open(source) as store:
        store.create_topic("flights", 4)
        store.append_batch(as_messages(load_flights().slice(0, total)), topic="flights")
    streams = {"without checks": _plain, "checked": _checked, "GX per batch and a second pass": _by_gx}
    found: dict[str, list[float]] = {label: [] for label in streams}
    for number in range(warm_up + ROUNDS):
        for label, stream in streams.items():
            os.sync()
            target = home / f"{label}-{number}"
            rate = stream(spark, source, target, batch)
            shutil.rmtree(target)
            if number >= warm_up:
                found[label].append(rate)
    figures = {
        label: Figure(f"flights, {batch:,} a batch, {label}", "k rows/s", tuple(rates))
        for label, rates in found.items()
    }
    yield from figures.values()
    yield ratio(figures["checked"], figures["without checks"])
    yield ratio(figures["checked"], figures["GX per batch and a second pass"])


def _plain(spark: SparkSession, source: Path, target: Path, batch: int) -> float:
    rows = _source(spark, source, batch).select("body", "tags", "keys", "flag", "bornTimestamp", "properties")
    writer = rows.writeStream.format("rocketflow").option("path", str(target / "store")).option("topic", "good")
    query = writer.option("checkpointLocation", str(target / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return _rate(query)


def _source(spark: SparkSession, source: Path, batch: int) -> DataFrame:
    return (
        spark.readStream.format("rocketflow")
        .option("path", str(source))
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .option("includeProperties", "true")
        .option("maxOffsetsPerTrigger", str(batch))
        .load()
    )


def _checked(spark: SparkSession, source: Path, target: Path, batch: int) -> float:
    from rocketflow.quality.jobs.quality_job import QualityJob, QualityQuery, preflight

    job = QualityJob(
        source=str(source),
        subscribe="flights",
        suite=str(SUITE),
        quarantine_topic="bad",
        good_topic="good",
        sink=str(target / "store"),
        checkpoint=str(target / "checkpoint"),
        options={"maxOffsetsPerTrigger": str(batch)},
    )
    query = QualityQuery(spark, job, *preflight(job)).start()
    query.awaitTermination()
    return _rate(query)


def _by_gx(spark: SparkSession, source: Path, target: Path, batch: int) -> float:
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from pyspark.sql import functions as F  # noqa: N812

    raw = json.loads(SUITE.read_text())
    context: Any = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_spark("bench", persist=False).add_dataframe_asset("flights")
    suite = context.suites.add(gx.ExpectationSuite(name="flights", expectations=raw["expectations"]))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name="v", data=asset.add_batch_definition_whole_dataframe("b"), suite=suite)
    )
    asked = {
        "result_format": "SUMMARY",
        "unexpected_index_column_names": ["msgId"],
        "return_unexpected_index_query": True,
    }

    def split(rows: DataFrame, number: int) -> None:
        body = F.from_json(F.col("body").cast("string"), raw["meta"]["rocketflow"]["bodySchema"])
        parsed = rows.withColumn("b", body).select("*", "b.*").drop("b").persist()
        done = definition.run(batch_parameters={"dataframe": parsed}, result_format=asked)
        found = []
        for one in done.results:
            query = one.result.get("unexpected_index_query")
            if query and one.result.get("unexpected_count"):
                condition = ast.literal_eval(ast.parse(query, mode="eval").body.args[0].args[0])  # type: ignore[attr-defined]
                found.append((one.expectation_config.type, condition))
        violated = F.array_compact(
            F.array(F.lit(None), *[F.when(F.coalesce(F.expr(c), F.lit(False)), F.lit(name)) for name, c in found])
        )
        tagged = parsed.withColumn("violated", violated)
        topic = F.when(F.size("violated") == 0, "good").otherwise("bad")
        why = F.when(F.size("violated") > 0, F.create_map(F.lit("why"), F.array_join("violated", ",")))
        properties = F.map_concat(F.coalesce("properties", F.create_map()), F.coalesce(why, F.create_map()))
        out = tagged.select(
            "body", "tags", "keys", "flag", "bornTimestamp", topic.alias("topic"), properties.alias("properties")
        )
        out.write.format("rocketflow").mode("append").option("path", str(target / "store")).option(
            "txnId", f"bench-{number}"
        ).save()
        parsed.unpersist()

    writer = _source(spark, source, batch).writeStream.foreachBatch(split)
    query = writer.option("checkpointLocation", str(target / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return _rate(query)


def _rate(query: Any) -> float:
    progress = [one for one in query.recentProgress if one["numInputRows"]][1:]
    seconds = sum(one["durationMs"]["triggerExecution"] for one in progress) / 1000
    return float(sum(one["numInputRows"] for one in progress) / seconds / 1e3)
