"""The check of a range of a topic against a suite, without a stream and without writing: a gate for a scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rocketflow.errors import UsageError
from rocketflow.quality.jobs.quality_job import spec_of
from rocketflow.quality.suites.suite import Action, load_suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rocketflow.quality.bodies.body_schema import BodySpec
    from rocketflow.quality.suites.suite import Suite


@dataclass(frozen=True, slots=True)
class RangeCheck:
    """The messages and the suite: store times [from_ms, to_ms), None is open; `options` are the source's.

    `body_options` are those of Spark's parser of bodies.
    """

    store: str
    topic: str
    suite: str
    from_ms: int | None = None
    to_ms: int | None = None
    body_schema: str | None = None
    body_format: str | None = None
    validator: str = "pass"
    options: dict[str, str] = field(default_factory=dict)
    body_options: dict[str, str] = field(default_factory=dict)

    def source_options(self) -> dict[str, str]:
        """Return the options of the source."""
        found = {"path": self.store, "subscribe": self.topic, **self.options}
        if self.from_ms is not None:
            found |= {"startingTimestamp": str(self.from_ms), "startingOffsetsByTimestampStrategy": "latest"}
        if self.to_ms is not None:
            found["endingTimestamp"] = str(self.to_ms)
        return found


def preflight(check: RangeCheck) -> tuple[Suite, BodySpec]:
    """Check all that needs no JVM; return the suite and the form of bodies."""
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow.spark.source.topic_check import describe_missing
    from rocketflow_store import StoreReader

    if check.from_ms is not None and check.to_ms is not None and check.from_ms > check.to_ms:
        raise UsageError(f"--begin {check.from_ms} is after --end {check.to_ms - 1}: no message is between them")
    suite = load_suite(check.suite)
    spec = spec_of(check.body_schema, check.body_format, check.body_options, suite)
    for store in SourceOptions.parse(check.source_options(), streaming=False).stores:
        with StoreReader(store.path, store.store_config()) as reader:
            known = {*reader.topics(), *reader.listed_topics()}
        if check.topic not in known:
            raise UsageError(describe_missing([check.topic], known))
    return suite, spec


def check_range(spark: SparkSession, check: RangeCheck) -> dict[str, Any]:
    """Return the result's fields, as for a stream's batch, and `failed`: the reasons why the range fails."""
    from rocketflow.quality.bodies.parsed_bodies import quarantining, source_columns, suite_columns
    from rocketflow.quality.check.batch_check import BatchChecker, CheckSettings, describe
    from rocketflow.quality.check.split import Route
    from rocketflow.quality.check.suite_trial import plan_suite

    suite, spec = preflight(check)
    options, body_errors = quarantining(check.source_options())
    columns = source_columns(suite, body_error=body_errors)
    plan = plan_suite(spark, suite, suite_columns(spec, columns))
    rows = spark.read.format("rocketflow").schema(columns).options(**options).load()
    route = Route((check.topic,), None, "quarantine", properties=False, body_errors=body_errors)
    settings = CheckSettings(spec, route, Action.QUARANTINE, check.validator)
    checker = BatchChecker(plan, settings)
    checked = checker.check(checker.prepared(rows), 0, stop=False)
    fields = {key: value for key, value in checked.fields.items() if key not in ("query", "batchId")}
    failed = [describe(one) for one in checked.verdicts if not one.success and one.action is not Action.WARN]
    if fields["malformed"]:
        failed.append(f"{fields['malformed']} bodies could not be read")
    return {**fields, "failed": failed}
