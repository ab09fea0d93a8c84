"""Source -> SQL -> sink as one streaming query: what `jobs/stream.py` runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketflow.errors import UsageError
from rocketflow.spark.first_entry import drop_unfinished_first_entry
from rocketflow_store import StoreReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class StreamJob:
    """What to read, how to transform it, where to write it."""

    source: str
    subscribe: str
    sink: str
    checkpoint: str
    sql: str | None = None
    topic: str | None = None
    trigger: str = "available-now"
    options: dict[str, str] = field(default_factory=dict)
    sink_options: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StreamSummary:
    """What a run did; rows are those read."""

    rows: int = 0
    batches: int = 0
    seconds: float = 0.0

    def as_json(self, job: str) -> str:
        """The one line that ends a job."""
        rate = self.rows / self.seconds if self.seconds else 0.0
        return json.dumps(
            {
                "job": job,
                "rows": self.rows,
                "batches": self.batches,
                "seconds": round(self.seconds, 3),
                "rowsPerSecond": round(rate, 1),
            }
        )


def parse_arguments(arguments: Sequence[str] | None = None) -> StreamJob:
    """The job from a command line; argparse ends a wrong one with exit code 2."""
    parser = argparse.ArgumentParser(
        prog="stream.py",
        description="Stream topics of a RocketMQ store through SQL into a topic, exactly once.",
        epilog="example: stream.py --source /data/store --subscribe orders --sql "
        "\"SELECT body, keys FROM messages WHERE tags = 'paid'\" --sink /data/store --topic paid --checkpoint /data/cp",
    )
    parser.add_argument("--source", required=True, metavar="PATH", help="store directory to read")
    parser.add_argument("--subscribe", required=True, metavar="T,..", help="topics to read, comma-separated")
    parser.add_argument("--sql", metavar="SELECT", help="query over the view `messages` (default: body, tags, keys)")
    parser.add_argument("--sink", required=True, metavar="PATH", help="store directory to write")
    parser.add_argument("--topic", metavar="T", help="topic for rows without a column `topic`")
    parser.add_argument("--checkpoint", required=True, metavar="DIR", help="the query's checkpoint")
    parser.add_argument(
        "--trigger", default="available-now", help='available-now (default) or an interval: "5 seconds"'
    )
    parser.add_argument("--option", action="append", default=[], metavar="K=V", help="an option of the source")
    parser.add_argument("--sink-option", action="append", default=[], metavar="K=V", help="an option of the sink")
    given = parser.parse_args(arguments)
    return StreamJob(
        source=given.source,
        subscribe=given.subscribe,
        sink=given.sink,
        checkpoint=given.checkpoint,
        sql=given.sql,
        topic=given.topic,
        trigger=given.trigger,
        options=_pairs("--option", given.option),
        sink_options=_pairs("--sink-option", given.sink_option),
    )


def _pairs(name: str, given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise UsageError(f"{name} {one!r}: give it as key=value")
        found[key] = value
    return found


def transformed(spark: SparkSession, job: StreamJob) -> DataFrame:
    """The rows to write: the job's SQL over the source as view `messages`, or a plain copy."""
    options = {"startingOffsets": "earliest", **job.options}
    rows = (
        spark.readStream.format("rocketflow")
        .options(**options)
        .option("path", job.source)
        .option("subscribe", job.subscribe)
        .load()
    )
    if job.sql is None:
        columns = ["body", "tags", "keys", "flag", "bornTimestamp"]
        return rows.select(*columns, *(["properties"] if "properties" in rows.columns else []))
    rows.createOrReplaceTempView("messages")
    return spark.sql(job.sql)


def start(spark: SparkSession, job: StreamJob) -> StreamingQuery:
    """Start the query of a job."""
    drop_unfinished_first_entry(job.checkpoint)
    writer = (
        transformed(spark, job)
        .writeStream.format("rocketflow")
        .outputMode("append")
        .option("checkpointLocation", job.checkpoint)
        .option("path", job.sink)
        .options(**job.sink_options)
    )
    if job.topic is not None:
        writer = writer.option("topic", job.topic)
    if job.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.trigger)
    return writer.start()


def run(spark: SparkSession, job: StreamJob) -> StreamSummary:
    """Run a job until it has read what is there (available-now) or until it is stopped; progress goes to stderr."""
    began = time.monotonic()
    query = start(spark, job)
    summary = StreamSummary()
    seen = -1
    try:
        while query.isActive:
            query.awaitTermination(_POLL_S)  # type: ignore[arg-type]
            seen = _follow(query, summary, seen)
    except KeyboardInterrupt:
        query.stop()
    seen = _follow(query, summary, seen)
    failure = query.exception()
    if failure is not None:
        raise failure
    summary.seconds = time.monotonic() - began
    return summary


def _follow(query: StreamingQuery, summary: StreamSummary, seen: int) -> int:
    for progress in query.recentProgress:
        batch, rows = _of(progress, "batchId"), _of(progress, "numInputRows")
        if batch > seen:
            seen = batch
            if rows:
                summary.rows += rows
                summary.batches += 1
                print(f"batch {batch}: {rows} rows, {summary.rows} in all", file=sys.stderr, flush=True)
    return seen


def _of(progress: Any, name: str) -> int:
    return int(progress[name] if isinstance(progress, dict) else getattr(progress, name))


def preflight(job: StreamJob) -> None:
    """Find before a JVM starts what can be found: the source is a store, the options are known."""
    from rocketflow.spark.options import SourceOptions
    from rocketflow.spark.sink_options import SinkOptions

    options = {"startingOffsets": "earliest", **job.options, "path": job.source, "subscribe": job.subscribe}
    source = SourceOptions.parse(options, streaming=True)
    SinkOptions.parse({"path": job.sink, **({"topic": job.topic} if job.topic else {}), **job.sink_options})
    for store in source.stores:
        with StoreReader(store.path):
            pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, build the session, run; the exit code is that of interface.md's table."""
    from rocketflow.spark.job_errors import exit_code_of

    try:
        job = parse_arguments(arguments)
        preflight(job)
        from rocketflow.spark.session import build_session

        spark = build_session("rocketflow-stream")
        if "ROCKETFLOW_DEBUG" not in os.environ:
            spark.sparkContext.setLogLevel("FATAL")  # a failure is told in one line below
        summary = run(spark, job)
    except Exception as error:  # every failure becomes one line and an exit code
        return exit_code_of(error)
    print(summary.as_json("stream"), flush=True)
    spark.stop()
    return 0
