"""One batch checked: the pass, GX's verdicts, and their actions."""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rocketflow.quality.bodies.parsed_bodies import parsing, reasons
from rocketflow.quality.check.pass_tasks import REPORT_SCHEMA, PassReport, PassTask, named_ranges
from rocketflow.quality.check.split import Marking, for_tasks, routing
from rocketflow.quality.check.suite_result import SuiteResultForm
from rocketflow.quality.check.verdicts import Verdict, ask_gx, compare_with_gx, judge, to_ask
from rocketflow.quality.errors import QualityFailedError
from rocketflow.quality.pass_columns import BAD, WELL_FORMED
from rocketflow.quality.projection import Projection, quoted
from rocketflow.quality.suites.suite import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from rocketflow.quality.bodies.body_schema import BodySpec
    from rocketflow.quality.check.split import Route
    from rocketflow.quality.suites.suite_plan import SuitePlan
    from rocketflow_store.spi.staging import StagedPart

    Foreach = Callable[[DataFrame, int], Any]


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """The settings of a check; with `validator` "gx" instead of "pass" GX also validates every batch itself."""

    spec: BodySpec
    route: Route
    action: Action = Action.QUARANTINE
    validator: str = "pass"
    foreach: Foreach | None = None


@dataclass(slots=True)
class CheckedBatch:
    """A batch that may be committed: `parts` hold its rows, `fields` is the result's message."""

    parts: list[StagedPart]
    fields: dict[str, Any]
    verdicts: list[Verdict]

    @property
    def success(self) -> bool:
        return bool(self.fields["success"])


class BatchChecker:
    """Checks batches of `prepared` rows, one after another, by one plan."""

    def __init__(self, plan: SuitePlan, settings: CheckSettings) -> None:
        self._plan, self._settings = plan, settings
        self._marking = Marking(plan)
        self._routing = routing(plan, settings.route, settings.action)
        self._for_tasks = for_tasks(plan)
        self._own = Projection((tuple(quoted(name) for name in plan.schema.fieldNames()),))
        self._reasons = reasons(settings.spec)
        self._form = SuiteResultForm(plan)
        self._observed = [column.alias(name) for name, column in plan.aggregates.items()]

    def prepared(self, rows: DataFrame) -> DataFrame:
        """Return the source's rows, of a stream or not, with all columns that do not depend on the batch."""
        rows = parsing(self._settings.spec, rows.schema).of(rows)
        return self._routed(rows) if self._marking.by_row else rows

    def _routed(self, parsed: DataFrame) -> DataFrame:
        return self._routing.of(self._marking.of(parsed))

    def check(
        self,
        rows: DataFrame,
        batch_id: int,
        *,
        store: str | None = None,
        sink_id: str = "check",
        queues: dict[str, int] | None = None,
        discard: Callable[[Sequence[StagedPart]], None] = lambda parts: None,
        stop: bool = True,
    ) -> CheckedBatch:
        """Check a batch of `prepared` rows; with `store` (whose topics have `queues`) they are staged there.

        Any error discards the staged parts.

        Raises:
            QualityFailedError: an expectation with action `fail` failed, unless `stop` is false.
        """
        plan, settings = self._plan, self._settings
        ask_all = settings.validator == "gx"
        kept = ask_all or plan.needs_rows_again or settings.foreach is not None
        if kept:
            rows = rows.persist()
        staged: list[StagedPart] = []
        try:
            routed = rows if self._marking.by_row else self._routed(rows)
            task = self._task(batch_id, store, sink_id, queues or {})
            report, staged, aggregates = self._run_pass(routed, task)
            asked = ask_gx(rows.sparkSession, self._well_formed(rows), to_ask(plan, report)) if plan.asked else {}
            verdicts = judge(plan, report, aggregates, asked, settings.action)
            if ask_all:
                compare_with_gx(rows.sparkSession, self._well_formed(rows), plan, verdicts, report, aggregates)
            if stop:
                _stop_if_failed(verdicts, batch_id, settings, report)
            gate = _gate(plan, verdicts)
            if gate and store is not None:
                discard(staged)
                staged = []
                gated = routing(plan, settings.route, settings.action, gate)
                report, staged, _ = self._run_pass(gated.of(routed), task)
            if settings.foreach is not None and not gate:
                settings.foreach(self._good_rows(routed), batch_id)
        except BaseException:
            discard(staged)
            raise
        finally:
            if kept:
                rows.unpersist()
        return CheckedBatch(staged, self._fields(report, verdicts, gate, batch_id, sink_id), verdicts)

    def _task(self, batch_id: int, store: str | None, sink_id: str, queues: dict[str, int]) -> PassTask:
        plan, route = self._plan, self._settings.route
        return PassTask(
            counters=len(plan.counters),
            shown=tuple(sorted({one.unexpected for one in plan.checks if one.unexpected is not None})),
            good=route.good,
            quarantine=route.quarantine,
            queues=queues,
            reasons=self._reasons,
            store=store,
            sink_id=sink_id,
            batch_id=batch_id,
        )

    def _run_pass(self, rows: DataFrame, task: PassTask) -> tuple[PassReport, list[StagedPart], dict[str, Any]]:
        """Run one Spark job over the routed rows of a batch; return its report, the staged parts and the aggregates."""
        from great_expectations.util import convert_to_json_serializable
        from pyspark.sql import Observation

        plan = self._plan
        observation = Observation()
        if plan.aggregates:
            rows = rows.observe(observation, *self._observed)
        rows = self._for_tasks.of(rows)
        found = [pickle.loads(row[0]) for row in rows.mapInArrow(task.__call__, REPORT_SCHEMA).collect()]
        found.sort(key=lambda one: one.partition)
        total = PassReport(0, None, counts=np.zeros(len(plan.counters), np.int64))
        for one in found:
            total.add(one)
        aggregates = observation.get if plan.aggregates else {}
        made = {name: convert_to_json_serializable(value) for name, value in aggregates.items()}
        return total, [one.part for one in found if one.part is not None], made

    def _fields(
        self, report: PassReport, verdicts: Sequence[Verdict], gate: Sequence[str], batch_id: int, sink_id: str
    ) -> dict[str, Any]:
        """Return the fields of the result's message."""
        suite, settings = self._plan.suite, self._settings
        success = all(one.success for one in verdicts)
        outcome = "quarantined" if report.quarantined else "passed" if success else "warned"
        return {
            "version": 1,
            "query": sink_id,
            "batchId": batch_id,
            "suite": {"name": suite.name, "version": suite.version},
            "ranges": named_ranges(report.ranges, settings.route.topics),
            "rows": report.rows,
            "good": report.rows - report.quarantined,
            "quarantined": report.quarantined,
            "malformed": report.malformed,
            "malformedBy": dict(report.malformed_by.most_common()),
            "success": success,
            "outcome": "batch quarantined" if gate else outcome,
            "validator": settings.validator,
            "expectations": [
                {"label": one.label, "success": one.success, "action": one.action.value, "unexpected": one.unexpected}
                for one in verdicts
            ],
            "result": self._form.filled(f"{sink_id}-{batch_id}", verdicts),
        }

    def _well_formed(self, rows: DataFrame) -> DataFrame:
        """Return the rows whose body could be read, with the suite's columns."""
        return self._own.of(rows.where(WELL_FORMED))

    def _good_rows(self, routed: DataFrame) -> DataFrame:
        """Return the good rows, with the suite's columns."""
        return self._own.of(routed.where(f"NOT {BAD}"))


def _stop_if_failed(verdicts: Sequence[Verdict], batch_id: int, settings: CheckSettings, report: PassReport) -> None:
    failed = [one for one in verdicts if not one.success and one.action is Action.FAIL]
    if failed:
        failures = "; ".join(describe(one) for one in failed)
        where = ", ".join(
            f"{one['topic']}/{one['queueId']} [{one['from']}, {one['to']})"
            for one in named_ranges(report.ranges, settings.route.topics)
        )
        raise QualityFailedError(
            f"topic {', '.join(settings.route.topics)}, batch {batch_id} ({where}): {failures}; nothing of it was "
            "written. Correct the suite, or set action quarantine; then start again on this checkpoint"
        )


def describe(verdict: Verdict) -> str:
    """Return one line about an expectation that was not met."""
    result = verdict.result
    if verdict.unexpected is not None:
        return f"{verdict.label}: {verdict.unexpected} unexpected of {result.get('element_count', 'the batch')}"
    return f"{verdict.label}: observed {result.get('observed_value')}"


def _gate(plan: SuitePlan, verdicts: Sequence[Verdict]) -> list[str]:
    """Return the labels of table-level expectations that quarantine all rows of the batch."""
    table = {one.source.label for one in plan.checks if one.unexpected is None}
    return [one.label for one in verdicts if one.label in table and not one.success and one.action is Action.QUARANTINE]


def warn(batch_id: int, checked: CheckedBatch) -> None:
    """Print the expectations that were not met, and the malformed bodies, on stderr."""
    for one in checked.verdicts:
        if not one.success:
            print(f"batch {batch_id}: {describe(one)} ({one.action.value})", file=sys.stderr, flush=True)
    malformed = checked.fields["malformed"]
    if malformed:
        print(f"batch {batch_id}: {malformed} bodies could not be read (quarantine)", file=sys.stderr, flush=True)
