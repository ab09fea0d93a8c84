"""A topic through a suite as one streaming query: the job of `jobs/quality.py`."""

from __future__ import annotations

import importlib
import json
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.process.arguments import JobParser, argument
from rocketflow.process.job_timing import TIMING_FIELDS, timing
from rocketflow.quality.bodies.body_schema import FORMATS, BodySpec, body_spec
from rocketflow.quality.suites.suite import Action, Suite, load_suite
from rocketflow.spark.shared import checkpoint
from rocketflow.spark.shared.store_locations import local_path
from rocketflow.spark.stream.job_options import job_source_options
from rocketflow.spark.stream.query_run import AVAILABLE_NOW, await_query, check_trigger, start_query
from rocketflow_store.spi.setting_rows import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rocketflow.quality.check.batch_check import BatchChecker
    from rocketflow.quality.jobs.batch_commit import QualityCommits
    from rocketflow.quality.suites.suite_plan import SuitePlan

VALIDATORS: Final = ("pass", "gx")


ARGUMENTS: Final = (
    argument("--source", "store directory to read", form="PATH", required=True),
    argument("--subscribe", "topics to check, comma-separated", form="T,..", required=True),
    argument("--suite", "Great Expectations suite (JSON)", form="FILE", required=True),
    argument("--good-topic", "topic of good rows", form="T"),
    argument("--good-foreach", "called with (good rows, batch id) instead", form="MODULE:FUNCTION"),
    argument("--quarantine-topic", "topic of bad rows", form="T", required=True),
    argument("--checkpoint", "the query's checkpoint", form="DIR", required=True),
    argument("--sink", "store directory to write (default: the source)", form="PATH"),
    argument("--sink-id", "name of the query in its commits (default: the query's id)", form="ID"),
    argument("--body-schema", "'carrier string, delay int', or a JSON Schema file", form="DDL|FILE"),
    argument("--body-format", "format of bodies (default: json)", choices=FORMATS),
    argument("--body-option", "an option of Spark's parser", field="body_options", kind=Kind.PAIRS, form="K=V"),
    argument(
        "--action", "action of critical expectations", Action.QUARANTINE, choices=tuple(one.value for one in Action)
    ),
    argument("--validator", "gx: GX validates every batch as well", "pass", choices=VALIDATORS),
    argument("--trigger", 'available-now (default) or "5 seconds"', AVAILABLE_NOW),
    argument("--no-properties", "do not copy properties of messages (faster)", False),
    argument("--queues", "queues of new topics (default: as the source)", form="N", kind=Kind.COUNT),
    argument("--option", "an option of the source", field="options", kind=Kind.PAIRS, form="K=V"),
)


FIELDS: Final[dict[str, dict[str, str]]] = {
    "submit quality": {
        "job": "quality",
        "rows": "messages that were checked",
        "batches": "batches of the query that were checked",
        **TIMING_FIELDS,
        "good": "messages without a finding that quarantines",
        "quarantined": "messages that went to the quarantine topic",
        "malformed": "messages whose body could not be read",
        "quarantinedBy": "{reason: messages}: expectations and kinds of unreadable bodies; a message may have several",
        "failedBatches": "batches in which an expectation is not met",
        "replayedBatches": "batches that Spark repeated and that were in the log already",
    },
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@dataclass(frozen=True, slots=True)
class QualityJob:
    """The topics to check, the suite, and the targets of rows."""

    source: str
    subscribe: str
    suite: str
    quarantine_topic: str
    checkpoint: str
    good_topic: str | None = None
    good_foreach: str | None = None
    sink: str | None = None
    sink_id: str | None = None
    body_schema: str | None = None
    body_format: str | None = None
    body_options: dict[str, str] = field(default_factory=dict)
    action: Action = Action.QUARANTINE
    validator: str = "pass"
    trigger: str = AVAILABLE_NOW
    properties: bool = True
    queues: int | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.strip() for one in self.subscribe.split(",") if one.strip()))

    @property
    def path(self) -> str:
        """The directory of the store that is read."""
        from rocketflow.spark.shared.store_locations import parse_stores

        return parse_stores(self.source)[0].path

    @property
    def target(self) -> str:
        """The store that is written to."""
        return self.path if self.sink is None else local_path(self.sink)


@dataclass(slots=True)
class QualitySummary:
    """Counts of a run."""

    rows: int = 0
    good: int = 0
    quarantined: int = 0
    malformed: int = 0
    batches: int = 0
    failed_batches: int = 0
    replayed: int = 0
    quarantined_by: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def as_json(self) -> str:
        """Return the JSON line that ends the job."""
        return json.dumps(
            {
                "job": "quality",
                "rows": self.rows,
                "batches": self.batches,
                **timing(self.rows, self.seconds),
                "good": self.good,
                "quarantined": self.quarantined,
                "malformed": self.malformed,
                "quarantinedBy": dict(self.quarantined_by.most_common()),
                "failedBatches": self.failed_batches,
                "replayedBatches": self.replayed,
            }
        )


def parse_arguments(arguments: Sequence[str] | None = None) -> QualityJob:
    """Parse a command line; argparse ends the process with exit code 2 if it is wrong."""
    parser = JobParser(
        prog="rocketflow submit quality",
        description="Check topics of a RocketMQ store against a Great Expectations suite; bad rows are quarantined.",
        epilog="example: rocketflow submit quality --source /data/store --subscribe flights "
        "--suite conf/expectations/flights.json --good-topic flights-good --quarantine-topic flights-bad "
        "--checkpoint /data/cp",
    )
    parser.add_rows(ARGUMENTS, checks={"--checkpoint": checkpoint.checkpoint_argument})
    given = parser.values(arguments)
    if given["good_topic"] is not None and given["good_foreach"] is not None:
        parser.error("--good-topic and --good-foreach exclude each other")
    return QualityJob(properties=not given.pop("no_properties"), **given)


def spec_of(job_schema: str | None, job_format: str | None, options: dict[str, str], suite: Suite) -> BodySpec:
    """Return the form of bodies: from the command, else from the suite."""
    if job_schema is None and job_format is None:
        return body_spec(suite.body_schema, suite.body_format, {**suite.body_options, **options})
    chosen = job_format or (suite.body_format if job_schema else None)
    own = suite.body_options if chosen == suite.body_format else {}
    return body_spec(job_schema, chosen, {**own, **options})


def preflight(job: QualityJob) -> tuple[Suite, BodySpec]:
    """Check, before a JVM starts, the suite, the body schema, options, topics and the function."""
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow.spark.source.topic_check import check_source

    suite = load_suite(job.suite)
    spec = spec_of(job.body_schema, job.body_format, job.body_options, suite)
    source = SourceOptions.parse(job_source_options(job.source, job.subscribe, job.options), streaming=True)
    if len(source.stores) > 1:
        raise UsageError("--source names several stores: give one, and start a job for each of the others")
    for topic in filter(None, (job.good_topic, job.quarantine_topic)):
        SinkOptions.parse({"path": job.target, "topic": topic})
        if topic in job.topics:
            raise UsageError(f"topic {topic} is checked and written to: its own rows would be checked again")
    if job.good_topic == job.quarantine_topic:
        raise UsageError("--good-topic and --quarantine-topic are the same topic")
    check_trigger(job.trigger)
    check_source(source, ends_by_itself=job.trigger == AVAILABLE_NOW)
    if job.good_foreach is not None:
        function_of(job.good_foreach)
    return suite, spec


def function_of(name: str) -> Callable[[DataFrame, int], Any]:
    """Import the function that MODULE:FUNCTION names; raise UsageError if there is none."""
    module, colon, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function) if colon else None
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"--good-foreach {name}: {error}") from error
    if not callable(found):
        raise UsageError(f"--good-foreach {name}: give it as module:function")
    return found  # type: ignore[no-any-return]


class QualityQuery:
    """A job's query: planned, started, followed."""

    def __init__(self, spark: SparkSession, job: QualityJob, suite: Suite, spec: BodySpec) -> None:
        from rocketflow.quality.bodies.parsed_bodies import quarantining, source_columns, suite_columns
        from rocketflow.quality.check.suite_trial import plan_suite

        self._spark, self._job, self._spec = spark, job, spec
        print(f"planning {len(suite.expectations)} expectations of suite {suite.name}", file=sys.stderr, flush=True)
        self._options, self._body_errors = quarantining(job.options)
        self._columns = source_columns(suite, properties=job.properties, body_error=self._body_errors)
        self.plan: SuitePlan = plan_suite(spark, suite, suite_columns(spec, self._columns))
        self.summary = QualitySummary()
        self.error: BaseException | None = None
        self._checker = self._new_checker()
        self._made: tuple[QualityCommits, dict[str, int]] | None = None

    def run(self) -> QualitySummary:
        """Run until all is read (available-now), the query is stopped, or it fails; progress goes to stderr."""
        began = time.monotonic()
        query = self.start()
        try:
            await_query(query)
        except Exception:
            if self.error is None:
                raise
        if self.error is not None:  # the error of the batch, which Spark would turn into text
            raise self.error
        self.summary.seconds = time.monotonic() - began
        return self.summary

    def start(self) -> StreamingQuery:
        """Start the query; the stream's own plan, which is built once, parses bodies and judges rows."""
        job = self._job
        options = job_source_options(job.source, job.subscribe, self._options)
        if job.properties:
            options["includeProperties"] = "true"
        rows = self._spark.readStream.format("rocketflow").schema(self._columns).options(**options).load()
        writer = self._checker.prepared(rows).writeStream.foreachBatch(self._batch)
        return start_query(writer, f"quality of {job.subscribe}", job.checkpoint, job.trigger)

    def _batch(self, rows: DataFrame, batch_id: int) -> None:
        try:
            self._check(rows, batch_id)
        except BaseException as error:
            self.error = error
            raise

    def _check(self, rows: DataFrame, batch_id: int) -> None:
        from rocketflow.quality.check.batch_check import warn
        from rocketflow.quality.jobs.batch_commit import now_ms

        commits, queues = self._prepared
        known = commits.replayed(batch_id)
        if known is not None:
            commits.check_replay(batch_id, _ranges(rows, self._job.topics))
            self.summary.replayed += 1
            print(f"batch {batch_id}: is in the log already", file=sys.stderr, flush=True)
            return
        checked = self._checker.check(
            rows,
            batch_id,
            store=commits.store,
            sink_id=commits.sink_id,
            queues=queues,
            discard=lambda parts: commits.discard(batch_id, parts),
        )
        commits.commit(batch_id, checked.parts, checked.fields, now_ms())
        warn(batch_id, checked)
        self._count(checked.fields)

    def _count(self, fields: dict[str, Any]) -> None:
        from rocketflow.quality.results.results import quarantine_reasons, reasons_text

        total = self.summary
        total.rows += fields["rows"]
        total.good += fields["good"]
        total.quarantined += fields["quarantined"]
        total.malformed += fields["malformed"]
        total.batches += 1
        reasons = quarantine_reasons(fields)
        total.quarantined_by.update(reasons)
        total.failed_batches += not fields["success"]
        print(
            f"batch {fields['batchId']}: {fields['rows']} rows, {fields['quarantined']} quarantined"
            f"{f' ({reasons_text(reasons)})' if reasons else ''}, "
            f"{total.rows} rows in all",
            file=sys.stderr,
            flush=True,
        )

    @property
    def _prepared(self) -> tuple[QualityCommits, dict[str, int]]:
        if self._made is None:
            self._made = self._prepare()
        return self._made

    def _new_checker(self) -> BatchChecker:
        from rocketflow.quality.check.batch_check import BatchChecker, CheckSettings
        from rocketflow.quality.check.split import Route

        job, suite = self._job, self.plan.suite
        route = Route(
            topics=job.topics,
            good=job.good_topic,
            quarantine=job.quarantine_topic,
            properties=job.properties,
            body_errors=self._body_errors,
            constants={"QUALITY_SUITE": suite.name, "QUALITY_SUITE_VERSION": suite.version},
        )
        foreach = None if job.good_foreach is None else function_of(job.good_foreach)
        return BatchChecker(self.plan, CheckSettings(self._spec, route, job.action, job.validator, foreach))

    def _prepare(self) -> tuple[QualityCommits, dict[str, int]]:
        """Prepare the commits and the topics' queues, at the first batch, when the checkpoint has the query's id."""
        from rocketflow.quality.jobs.batch_commit import QualityCommits, queue_counts

        job = self._job
        query_id = checkpoint.query_id(job.checkpoint)
        if query_id is None:
            raise UsageError(f"--checkpoint {job.checkpoint}: this machine must see it, to read the query's id")
        commits = QualityCommits(job.target, job.sink_id or f"quality.{query_id}", query_id, uuid.uuid4().hex)
        queues = job.queues or max(queue_counts(job.path, job.topics).values(), default=0) or 8
        targets = [one for one in (job.good_topic, job.quarantine_topic) if one is not None]
        return commits, commits.prepare(dict.fromkeys(targets, queues))


def _ranges(rows: DataFrame, topics: Sequence[str]) -> list[dict[str, Any]]:
    """Return the ranges of a batch, in the form of its result."""
    from pyspark.sql import functions as F  # noqa: N812

    from rocketflow.quality.pass_columns import MESSAGE

    places = rows.select(f"{MESSAGE}.topic", f"{MESSAGE}.queueId", f"{MESSAGE}.queueOffset")
    found = places.groupBy("topic", "queueId").agg(F.min("queueOffset"), F.max("queueOffset"), F.count("*")).collect()
    return [
        {"topic": topic, "queueId": queue, "from": first, "to": last + 1, "rows": count}
        for topic, queue, first, last, count in sorted(found, key=lambda row: (topics.index(row[0]), row[1]))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the arguments, build the session and run the job; return the exit code."""
    job = parse_arguments(arguments)
    suite, spec = preflight(job)
    from rocketflow.quality.jobs.session import quality_session
    from rocketflow.spark.session import stopped_by_errors

    spark = quality_session("rocketflow-quality")
    with stopped_by_errors(spark):
        summary = QualityQuery(spark, job, suite, spec).run()
    print(summary.as_json(), flush=True)
    spark.stop()
    return 0
