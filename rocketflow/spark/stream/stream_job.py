"""Source -> SQL -> sink as one streaming query: the job of `jobs/stream.py`."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow.environment import DEBUG
from rocketflow.process.arguments import JobParser, argument
from rocketflow.process.job_timing import TIMING_FIELDS, timing
from rocketflow.spark.shared.checkpoint import checkpoint_argument
from rocketflow.spark.shared.delivered_properties import without_delays
from rocketflow.spark.stream.job_options import job_sink_options, job_source_options
from rocketflow.spark.stream.query_run import AVAILABLE_NOW, await_query, check_trigger, start_query
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


ARGUMENTS: Final = (
    argument("--source", "store directory to read, or NameServers: host:port", form="PATH|ADDR", required=True),
    argument("--subscribe", "topics to read, comma-separated", form="T,..", required=True),
    argument("--sql", "query over the view `messages` (default: body, tags, keys)", form="SELECT"),
    argument("--sink", "store directory to write, or NameServers: host:port", form="PATH|ADDR", required=True),
    argument("--topic", "topic to write to; wins over a column `topic`", form="T"),
    argument("--checkpoint", "the query's checkpoint", form="DIR", required=True),
    argument("--trigger", 'available-now (default) or an interval: "5 seconds"', AVAILABLE_NOW),
    argument("--option", "an option of the source", field="options", kind=Kind.PAIRS, form="K=V"),
    argument("--sink-option", "an option of the sink", field="sink_options", kind=Kind.PAIRS, form="K=V"),
)


FIELDS: Final[dict[str, dict[str, str]]] = {
    "submit stream": {
        "job": "stream",
        "rows": "messages that were read",
        "batches": "batches of the query",
        **TIMING_FIELDS,
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@dataclass(frozen=True, slots=True)
class StreamJob:
    """The source, the SQL and the sink of a job."""

    source: str
    subscribe: str
    sink: str
    checkpoint: str
    sql: str | None = None
    topic: str | None = None
    trigger: str = AVAILABLE_NOW
    options: dict[str, str] = field(default_factory=dict)
    sink_options: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class StreamSummary:
    """Counts of a run; `rows` are the rows read."""

    rows: int = 0
    batches: int = 0
    seconds: float = 0.0

    def as_json(self, job: str) -> str:
        """Return the JSON line that ends a job."""
        return json.dumps({"job": job, "rows": self.rows, "batches": self.batches, **timing(self.rows, self.seconds)})


def parse_arguments(arguments: Sequence[str] | None = None) -> StreamJob:
    """Parse a command line; argparse ends the process with exit code 2 if it is wrong."""
    parser = JobParser(
        prog="rocketflow submit stream",
        description="Stream topics of a RocketMQ store, or of brokers, through SQL into a topic, exactly once (to "
        "RocketMQ's brokers at least once).",
        epilog="example: rocketflow submit stream --source /data/store --subscribe orders --sql "
        "\"SELECT body, keys FROM messages WHERE tags = 'paid'\" --sink /data/store --topic paid --checkpoint /data/cp"
        "; through brokers: --source 10.0.0.1:9876 --sink 10.0.0.1:9876",
    )
    parser.add_rows(ARGUMENTS, checks={"--checkpoint": checkpoint_argument})
    return StreamJob(**parser.values(arguments))


def transformed(spark: SparkSession, job: StreamJob) -> DataFrame:
    """Return the rows to write: the job's SQL over the source as view `messages`, or a plain copy."""
    options = job_source_options(job.source, job.subscribe, job.options)
    rows = spark.readStream.format("rocketflow").options(**options).load()
    if job.sql is None:
        columns: list[Any] = ["body", "tags", "keys", "flag", "bornTimestamp"]
        if "properties" in rows.columns:
            from pyspark.sql import functions as F  # noqa: N812

            columns.append(without_delays(F.col("properties")).alias("properties"))
        return rows.select(*columns)
    rows.createOrReplaceTempView("messages")
    return spark.sql(job.sql)


def start(spark: SparkSession, job: StreamJob) -> StreamingQuery:
    """Start the query of a job."""
    writer = (
        transformed(spark, job)
        .writeStream.format("rocketflow")
        .outputMode("append")
        .options(**job_sink_options(job.sink, job.topic, job.sink_options))
    )
    return start_query(writer, f"stream of {job.subscribe}", job.checkpoint, job.trigger)


def run(spark: SparkSession, job: StreamJob) -> StreamSummary:
    """Run a job until it has read all messages (available-now) or is stopped; progress goes to stderr."""
    began = time.monotonic()
    summary = StreamSummary()

    def batch_done(batch: int, rows: int) -> None:
        summary.rows += rows
        summary.batches += 1
        print(f"batch {batch}: {rows} rows, {summary.rows} in all", file=sys.stderr, flush=True)

    await_query(start(spark, job), batch_done)
    summary.seconds = time.monotonic() - began
    return summary


def preflight(job: StreamJob) -> None:
    """Check, before a JVM starts, that the source is a store and that the options are valid."""
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow.spark.source.topic_check import check_source

    source = SourceOptions.parse(job_source_options(job.source, job.subscribe, job.options), streaming=True)
    SinkOptions.parse(job_sink_options(job.sink, job.topic, job.sink_options))
    check_trigger(job.trigger)
    check_source(source, ends_by_itself=job.trigger == AVAILABLE_NOW)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, build the session and run the job; return the exit code."""
    job = parse_arguments(arguments)
    preflight(job)
    from rocketflow.spark.session import build_session, stopped_by_errors

    spark = build_session("rocketflow-stream")
    if not DEBUG.text():
        spark.sparkContext.setLogLevel("FATAL")  # `run_job` prints the failure as one line
    with stopped_by_errors(spark):
        summary = run(spark, job)
    print(summary.as_json("stream"), flush=True)
    spark.stop()
    return 0
