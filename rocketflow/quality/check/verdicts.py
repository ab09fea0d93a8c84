"""Great Expectations' results from the counts of the pass: GX's own code judges the values of the metrics it needs.

The metrics of an expectation are those that GX asked for at the start. Their values come from the pass (counters,
observed aggregates, examples) or, if a pass cannot compute them, from GX's own metrics on the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from rocketflow.quality.errors import ValidatorError
from rocketflow.quality.gx.gx_metrics import (
    RESULT_FORMAT,
    VERDICT_ONLY,
    GxEngine,
    runtime_configuration,
)
from rocketflow.quality.suites.expectation_kinds import Kind
from rocketflow.quality.suites.suite import Action
from rocketflow_store.spi.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rocketflow.quality.check.pass_tasks import PassReport
    from rocketflow.quality.suites.suite_plan import Check, SuitePlan

_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Verdict:
    """One expectation's outcome: `result` is GX's result as JSON; `action` is the action of a failure."""

    label: str
    success: bool
    action: Action
    unexpected: int | None
    result: dict[str, Any]


class Judgement(NamedTuple):
    """GX's verdict on one expectation: `result` as JSON."""

    success: bool
    result: dict[str, Any]


_NOT_MET: Final = Judgement(False, {"observed_value": None})
"""The judgement without values: GX returns the same for a mean of no values."""


def judge(
    plan: SuitePlan,
    report: PassReport,
    aggregates: dict[str, Any],
    asked: dict[str, Judgement],
    default: Action,
) -> list[Verdict]:
    """Return a verdict for every check; `asked` are GX's own results by label.

    Raises:
        ValidatorError: GX failed to judge a check.
    """
    found = []
    for check in plan.checks:
        label = check.source.label
        if not _has_values(check, report):
            made = _NOT_MET
        else:
            made = asked[label] if check.asked else _judged(check, report, aggregates)
        unexpected = None if check.unexpected is None else int(report.counts[check.unexpected])
        action = plan.suite.action_of(check.source, default)
        found.append(Verdict(label, made.success, action, unexpected, made.result))
    return found


def to_ask(plan: SuitePlan, report: PassReport) -> list[Check]:
    """Return the checks for which GX must read the batch."""
    return [one for one in plan.asked if _has_values(one, report)]


def _has_values(check: Check, report: PassReport) -> bool:
    """Return True if the batch has the values that GX needs to judge the check."""
    return check.needs is None or int(report.counts[check.needs]) > 0


def _judged(check: Check, report: PassReport, aggregates: dict[str, Any]) -> Judgement:
    values: dict[Any, Any] = dict(check.static)
    values |= {metric: int(report.counts[counter]) for metric, counter in check.counters.items()}
    values |= {metric: aggregates[name] for metric, name in check.observed.items()}
    if check.samples is not None:
        values[check.samples] = [] if check.kind is Kind.SQL else _examples(check, report)
    assert check.judge is not None
    try:
        made = check.judge.verdict(values, runtime_configuration())
    except Exception as error:
        raise ValidatorError(f"{check.source.label}: Great Expectations could not judge it: {error}") from error
    return judgement(made)


def _examples(check: Check, report: PassReport) -> list[Any]:
    """Return the observed values in GX's form: values of one column, tuples or objects of several."""
    assert check.unexpected is not None
    rows = [parse_json(text, allow_nan=True) for _, _, text in report.examples.get(check.unexpected, [])]
    if "column" in check.source.kwargs:
        return [row.get(check.columns[0]) for row in rows]
    if "column_A" in check.source.kwargs:
        return [tuple(row.get(name) for name in check.columns) for row in rows]
    return [{name: row.get(name) for name in check.columns} for row in rows]


def ask_gx(spark: SparkSession, rows: DataFrame, checks: Sequence[Check]) -> dict[str, Judgement]:
    """Return GX's own validation of `rows` by label, all checks in one metric graph.

    An error that GX would put into `exception_info` is raised: a failed validator has not found good data.
    """
    return {label: judgement(made) for label, (made, _) in _validated(spark, rows, checks, RESULT_FORMAT).items()}


def _validated(
    spark: SparkSession, rows: DataFrame, checks: Sequence[Check], result_format: dict[str, Any]
) -> dict[str, tuple[Any, dict[Any, Any]]]:
    """Return {label: (GX's result, the metrics that it was made of)}."""
    if not checks:
        return {}
    engine = GxEngine(spark, rows, result_format)
    try:
        values = engine.resolve([one.gx for one in checks])
        return {
            one.source.label: (
                one.gx.metrics_validate(
                    metrics=values, execution_engine=engine.engine, runtime_configuration=engine.configuration()
                ),
                values,
            )
            for one in checks
        }
    except Exception as error:  # GX may raise anything at a value
        raise ValidatorError(f"Great Expectations failed: {str(error).splitlines()[0]}") from error


def compare_with_gx(
    spark: SparkSession,
    rows: DataFrame,
    plan: SuitePlan,
    verdicts: Sequence[Verdict],
    report: PassReport,
    aggregates: dict[str, Any],
) -> None:
    """Have GX validate `rows` itself; raise ValidatorError if a verdict or a number differs from the pass's."""
    checks = [one for one in plan.checks if not one.asked and _has_values(one, report)]
    found = _validated(spark, rows, checks, VERDICT_ONLY)
    own = {one.label: one.success for one in verdicts}
    for check in checks:
        label = check.source.label
        made, values = found[label]
        pairs = [("success", own[label], bool(made.success))]
        counted = {metric: int(report.counts[number]) for metric, number in check.counters.items()}
        counted |= {metric: aggregates[name] for metric, name in check.observed.items()}
        pairs += [
            (metric[0], _rounded(mine), _rounded(values[metric]))
            for metric, mine in counted.items()
            if metric in values
        ]
        for name, mine, other in pairs:
            if mine != other and not (mine == 0 and other is None):  # GX's sum over no rows is null
                raise ValidatorError(f"{label}: {name} is {other} for Great Expectations, {mine} for the pass")


def judgement(made: Any) -> Judgement:
    """Convert GX's result; numbers have 12 digits, so that they do not depend on the order of the rows."""
    from great_expectations.util import convert_to_json_serializable

    result: dict[str, Any] = convert_to_json_serializable(made.result)
    result.get("details", {}).pop("unexpected_rows", None)
    return Judgement(bool(made.success), _rounded(result))  # for some expectations `success` is a NumPy bool


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(one) for one in value]
    return _rounded(value.item()) if isinstance(value, np.generic) else value
