"""Planning of a suite, and a trial of its plan on rows of typical values and on no rows; errors there refuse the suite.

Of conditions in the user's SQL only the types are tried: their result for a value is the user's concern.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from rocketflow.quality.check.split import Marking
from rocketflow.quality.errors import SuiteRefusedError, first_line
from rocketflow.quality.gx.gx_metrics import runtime_configuration
from rocketflow.quality.pass_columns import WELL_FORMED
from rocketflow.quality.projection import columns_by_name
from rocketflow.quality.suites.expectation_kinds import SQL_TYPE
from rocketflow.quality.suites.suite_plan import SuitePlanner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from rocketflow.quality.suites.probe import Probe
    from rocketflow.quality.suites.suite import Suite
    from rocketflow.quality.suites.suite_plan import Check, SuitePlan

_SOME: Final = 3
"""Number of rows in the batch of the trial."""


def plan_suite(spark: SparkSession, suite: Suite, schema: StructType) -> SuitePlan:
    """Resolve every expectation with GX and try the plan; SuiteRefusedError names all that cannot be applied."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    planner = SuitePlanner(spark, suite, schema)
    trial = SuiteTrial(planner.plan, planner.probe, planner.owners)
    trial.run(planner.values)
    problems = [*planner.problems, *(f"{label}: {problem}" for label, problem in trial.problems.items())]
    if problems:
        raise SuiteRefusedError(suite.path, problems)
    return planner.plan


class SuiteTrial:
    """A trial of a plan.

    `problems` holds the expectations that cannot be applied, by label; `owners` are the labels of the checks of every
    counter.
    """

    def __init__(self, plan: SuitePlan, probe: Probe, owners: Sequence[Sequence[str]]) -> None:
        self._plan, self._probe, self._owners = plan, probe, owners
        self.problems: dict[str, str] = {}

    def run(self, presence: Callable[[Check], int]) -> None:
        """Try the complete plan; `presence` returns the counter of the rows with values for a check."""
        self._try_asked(presence)
        self._try_conditions()
        seen = self._try_aggregates()
        for check in self._plan.checks:
            if check.source.label in self.problems or check.judge is None:
                continue
            try:
                _judge(check, _SOME, seen)
            except Exception as error:  # whatever GX raises at a value
                self._refuse(check, error)
                continue
            try:
                _judge(check, 0, dict.fromkeys(seen))
            except Exception:  # GX cannot judge without values
                check.needs = presence(check)

    def _try_asked(self, presence: Callable[[Check], int]) -> None:
        """Try the expectations that GX judges; those that fail only without values get a counter of values."""
        probe = self._probe
        asked = self._plan.asked
        if not asked:
            return
        typed = [one for one in asked if one.source.type != SQL_TYPE]
        queries = [one for one in asked if one.source.type == SQL_TYPE]
        for rows, checks in ((probe.values, typed), (probe.empty, queries)):
            found = probe.engine(rows).failures([one.gx for one in checks]) if checks else []
            for check, error in zip(checks, found, strict=True):
                if error is not None:
                    self._refuse(check, error)
        left = [one for one in typed if one.source.label not in self.problems]
        for rows in (probe.nulls, probe.empty):
            found = probe.engine(rows).failures([one.gx for one in left]) if left else []
            for check, error in zip(left, found, strict=True):
                if error is not None:  # GX cannot judge without values
                    check.needs = presence(check)

    def _try_conditions(self) -> None:
        """Try the counters as in the pass: beside a column of the row, and of type boolean."""
        from pyspark.sql import functions as F  # noqa: N812

        of_users = {one.unexpected for one in self._plan.checks if one.source.type == SQL_TYPE}
        for rows, are_users in ((self._probe.values, False), (self._probe.nulls, True)):
            held = {
                number: F.col(WELL_FORMED) & counter.condition
                for number, counter in enumerate(self._plan.counters)
                if counter.condition is not None and (number in of_users) is are_users
            }
            if held:
                self._each(held, lambda *columns, rows=rows: rows.select(*columns).collect())
        if not self.problems:
            try:
                Marking(self._plan).of(self._probe.empty)
            except Exception as error:  # values that Spark cannot compare
                unique = [number for number, one in enumerate(self._plan.counters) if one.unique_on]
                self._blame(unique or range(len(self._owners)), error)

    def _each(self, columns: dict[int, Column], evaluate: Callable[..., Any]) -> None:
        """Evaluate all columns at once; if that fails, each half, until the failing ones are found."""
        try:
            evaluate(*columns.values())
        except Exception as error:
            if len(columns) == 1:
                self._blame(columns, error)
                return
            known, numbers = len(self.problems), list(columns)
            for part in (numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]):
                self._each({number: columns[number] for number in part}, evaluate)
            if len(self.problems) == known:
                self._blame(columns, error)

    def _blame(self, counters: Iterable[int], error: Exception) -> None:
        labels = {label for number in counters for label in self._owners[number]}
        for check in self._plan.checks:
            if check.source.label in labels:
                self._refuse(check, error)

    def _try_aggregates(self) -> dict[str, Any]:
        """Return the observed aggregates of the typical values."""
        from great_expectations.util import convert_to_json_serializable

        columns = {name: column.alias(name) for name, column in self._plan.aggregates.items()}
        if not columns:
            return {}
        values = self._probe.values
        try:
            row = values.select(*columns.values()).collect()[0].asDict()
            return {name: convert_to_json_serializable(value) for name, value in row.items()}
        except Exception:
            seen: dict[str, Any] = {}
            for name, column in columns.items():
                try:
                    seen[name] = convert_to_json_serializable(values.select(column).collect()[0][0])
                except Exception as error:
                    for check in self._plan.checks:
                        if name in check.observed.values():
                            self._refuse(check, error)
            return seen

    def _refuse(self, check: Check, error: Exception) -> None:
        kinds = columns_by_name(self._plan.schema)
        about = ", ".join(f"{name} {kinds[name].simpleString()}" for name in check.columns)
        problem = first_line(error)
        self.problems.setdefault(
            check.source.label, f"cannot be applied to values of {about}: {problem}" if about else problem
        )


def _judge(check: Check, rows: int, seen: dict[str, Any]) -> None:
    assert check.judge is not None
    values: dict[Any, Any] = dict(check.static) | dict.fromkeys(check.counters, rows)
    values |= {metric: seen[name] for metric, name in check.observed.items()}
    if check.samples is not None:
        values[check.samples] = []
    check.judge.verdict(values, runtime_configuration())
