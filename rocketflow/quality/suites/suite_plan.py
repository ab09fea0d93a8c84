"""A suite planned for a stream: every expectation as counters of rows, observed aggregates, or a validation by GX.

`SuitePlanner` collects the problems: unknown types and arguments, missing columns, expectations without a meaning for
micro-batches, conditions that Spark refuses. A plan is complete once it was tried on rows of typical values:
`check.suite_trial.plan_suite` does both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from rocketflow.quality.errors import first_line
from rocketflow.quality.gx.gx_metrics import Domains, MetricFailedError
from rocketflow.quality.gx.loading import load_great_expectations
from rocketflow.quality.projection import columns_by_name, placed
from rocketflow.quality.suites.bounds import bounds_problem
from rocketflow.quality.suites.expectation_kinds import REFUSED_TYPES, Kind, columns_of, kind_of, row_condition_of
from rocketflow.quality.suites.probe import Probe

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import StructType

    from rocketflow.quality.gx.gx_judge import Judge
    from rocketflow.quality.gx.gx_metrics import GxEngine
    from rocketflow.quality.suites.suite import Suite, SuiteExpectation

_STATIC: Final = frozenset({"table.columns", "table.column_types", "table.column_count"})
_OBSERVABLE: Final = frozenset({"column.mean", "column.sum", "column.min", "column.max", "column.standard_deviation"})
"""Aggregates that ignore nulls, so that rows whose body could not be read do not count."""
_PAIR_IN_SET: Final = "expect_column_pair_values_to_be_in_set"
_JSON_SCHEMA: Final = "expect_column_values_to_match_json_schema"
_NULLS: Final = "column_values.nonnull.unexpected_count"
_NOTHING: Final = ("unexpected_index_list", "unexpected_index_query")


@dataclass(slots=True)
class Counter:
    """Rows for which a condition is true; None counts all. `unique_on` are columns whose values must not repeat."""

    condition: Column | None
    unique_on: tuple[str, ...] = ()


@dataclass(slots=True)
class Check:
    """One planned expectation.

    `counters` are numbers into the plan's counters by metric id; `unexpected` is the counter of rows that break it
    (None for a table-level one). `observed` are names of aggregates by metric id; `static` are values that are the same
    for every batch; with `asked` GX itself reads every batch. `needs` is the counter of the values or rows that GX must
    have to judge it: without any it is not met. With None GX can judge an empty batch, too.
    """

    source: SuiteExpectation
    gx: Any
    kind: Kind
    columns: tuple[str, ...]
    counters: dict[Any, int] = field(default_factory=dict)
    unexpected: int | None = None
    samples: Any = None
    observed: dict[Any, str] = field(default_factory=dict)
    static: dict[Any, Any] = field(default_factory=dict)
    asked: bool = False
    needs: int | None = None
    judge: Judge | None = None
    """Judge of the pass's counts; None if GX itself reads the batch."""


@dataclass(slots=True)
class SuitePlan:
    """All checks, the counters they share, and the aggregates to observe ({name: column})."""

    suite: Suite
    schema: StructType
    checks: list[Check]
    counters: list[Counter]
    aggregates: dict[str, Column]
    engine: GxEngine

    @property
    def asked(self) -> list[Check]:
        """Checks for which GX must read the batch."""
        return [one for one in self.checks if one.asked]

    @property
    def needs_rows_again(self) -> bool:
        """True if the pass alone is not enough: the batch is then kept in memory for the time of its check."""
        return bool(self.asked) or any(one.unique_on for one in self.counters)


class SuitePlanner:
    """Plans a suite's expectations one after another.

    `problems` are the expectations that cannot be applied, `owners` the labels of the checks of every counter, `probe`
    the rows that a plan is tried on.
    """

    def __init__(self, spark: SparkSession, suite: Suite, schema: StructType) -> None:
        self.probe = Probe(spark, schema)
        self.problems: list[str] = []
        self.owners: list[list[str]] = []
        self._domains = Domains(spark, schema)
        self._keys: dict[str, int] = {}
        self.plan = SuitePlan(suite, schema, [], [], {}, self.probe.engine(self.probe.empty))
        for one in suite.expectations:
            problem = self._add(one)
            if problem is not None:
                self.problems.append(f"{one.label}: {problem}")

    def _add(self, source: SuiteExpectation) -> str | None:
        """Plan one expectation; return what is wrong with it, or None."""
        if source.type in REFUSED_TYPES:
            return f"cannot be applied to a stream: {REFUSED_TYPES[source.type]}"
        known = list(columns_by_name(self.plan.schema))
        for column in columns_of(source.kwargs):
            if column not in known:
                near = get_close_matches(str(column), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                return f"unknown column {column!r} ({hint})"
        never = bounds_problem(source.type, source.kwargs)
        if never is not None:
            return never
        try:
            made = _gx_expectation(source)
            check = Check(source, made, kind_of(source.type, source.kwargs), tuple(columns_of(source.kwargs)))
            if check.kind is Kind.TABLE:
                self._table(check)
            else:
                self._rows(check)
        except _Refused as error:
            return str(error)
        except MetricFailedError as error:
            return f"Great Expectations cannot apply it: {first_line(error)}"
        except Exception as error:  # GX or Spark may raise anything; the problem names the expectation
            return f"{type(error).__name__}: {first_line(error)}"
        if not check.asked:
            check.judge = self.plan.engine.judge(check.gx)
        self.plan.checks.append(check)
        return None

    # -- row by row

    def _rows(self, check: Check) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        engine = self.plan.engine
        given = check.source.kwargs
        if check.source.type == _PAIR_IN_SET and given.get("row_condition"):
            raise _Refused("Great Expectations counts the rows outside of its row_condition too")
        if isinstance(given.get("value_set"), list) and None in given["value_set"]:
            raise _Refused("value_set holds null, with which every value would pass; nulls are not checked: remove it")
        needed = engine.needed(check.gx)
        if check.kind is Kind.SQL:
            metric = needed["unexpected_rows_query.row_count"]
            text = row_condition_of(check.source.kwargs["unexpected_rows_query"])
            condition = F.expr(f"({text}\n)")  # without brackets words after it would be an alias
            check.columns = self._named_in(condition)
            domain = self._domains.condition(dict(metric.metric_domain_kwargs))
            check.unexpected = self._counter(_both(domain, condition), metric.id, check)
            check.counters[metric.id] = check.unexpected
            check.samples = needed["unexpected_rows_query.table"].id
            return
        counted = [name for name in needed if name.endswith(".unexpected_count")]
        main = next((name for name in counted if name != _NULLS), _NULLS)
        for name, metric in needed.items():
            if name.endswith(_NOTHING):
                check.static[metric.id] = None
            elif name.endswith(".unexpected_values"):
                check.samples = metric.id
            elif name.endswith((".filtered_row_count", "table.row_count")):
                check.counters[metric.id] = self._rows_of(dict(metric.metric_domain_kwargs), check)
            elif name in counted:
                condition, *domain = engine.related(metric, name.removesuffix("unexpected_count") + "condition")
                within = self._domains.condition({**domain[0], **domain[1]})  # as GX itself combines them
                if check.source.type == _JSON_SCHEMA and name != _NULLS:
                    _check_json_schema(given["json_schema"])
                    condition = _breaks_json_schema(placed(given["column"], self.plan.schema), given["json_schema"])
                if check.kind is Kind.UNIQUE and name != _NULLS:
                    number = self._counter(within, metric.id, check, check.columns)
                else:
                    number = self._counter(_both(within, condition), metric.id, check)
                check.counters[metric.id] = number
                if name == main:
                    check.unexpected = number
            else:
                raise _Refused(f"needs the metric {name}, which is not known to be of rows")
        if check.unexpected is None:
            raise _Refused("Great Expectations has no condition on Spark for it")

    def _rows_of(self, domain: dict[str, Any], check: Check) -> int:
        """Return the counter of a domain's rows."""
        given = sorted((name, repr(value)) for name, value in domain.items() if value is not None)
        names = {"row_condition", "condition_parser", "ignore_row_if"}
        names |= {"column_A", "column_B", "column_list"} if "ignore_row_if" in domain else set()
        return self._counter(self._domains.condition(domain), [one for one in given if one[0] in names], check)

    def _counter(self, condition: Column | None, means: Any, check: Check, unique_on: tuple[str, ...] = ()) -> int:
        """Return the number of a condition's counter; conditions with the same meaning share one."""
        key = f"counter {means}"
        if key not in self._keys:
            self._keys[key] = len(self.plan.counters)
            self.plan.counters.append(Counter(condition, unique_on))
            self.owners.append([])
        self.owners[self._keys[key]].append(check.source.label)
        return self._keys[key]

    def _named_in(self, condition: Column) -> tuple[str, ...]:
        """Return the columns that a user's condition names, in the schema's order."""
        found = self.probe.empty.where(condition)._jdf.queryExecution().analyzed().condition().references().toSeq()
        names = {str(found.apply(at).name()).lower() for at in range(found.size())}  # as the condition writes them
        return tuple(name for name in self.plan.schema.fieldNames() if name.lower() in names)

    def values(self, check: Check) -> int:
        """Return the counter of rows that have a value in each of the check's columns."""
        from pyspark.sql import functions as F  # noqa: N812

        own = {name: check.source.kwargs.get(name) for name in ("row_condition", "condition_parser")}
        condition = self._domains.condition(own) if own["row_condition"] else None
        for name in check.columns:
            condition = _both(condition, F.col(placed(name, self.plan.schema)).isNotNull())
        return self._counter(condition, ["values", *check.columns, *sorted(own.items())], check)

    # -- all rows of the batch

    def _table(self, check: Check) -> None:
        engine = self.plan.engine
        for name, metric in engine.needed(check.gx).items():
            if name in _STATIC:
                check.static[metric.id] = engine.value(metric)
            elif name == "table.row_count":
                check.counters[metric.id] = self._rows_of(dict(metric.metric_domain_kwargs), check)
            else:
                alias = self._observed(metric) if name in _OBSERVABLE else None
                if alias is None:
                    check.asked, check.counters, check.static, check.observed = True, {}, {}, {}
                    return
                check.observed[metric.id] = alias

    def _observed(self, metric: Any) -> str | None:
        aggregate, domain, _ = self.plan.engine.related(metric, f"{metric.metric_name}.aggregate_fn")
        return None if self._domains.condition(domain) is not None else self._aggregate(aggregate, metric.id)

    def _aggregate(self, column: Column, means: Any) -> str | None:
        """Return the name under which an aggregate is observed, or None if Spark cannot observe it (distinct ones)."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import Observation

        key = f"aggregate {means}"
        if key not in self._keys:
            try:
                self.probe.empty.observe(Observation(), column.alias("one"))
            except AnalysisException:
                return None
            self._keys[key] = len(self.plan.aggregates)
            self.plan.aggregates[f"a{self._keys[key]}"] = column
        return f"a{self._keys[key]}"


class _Refused(Exception):
    """An expectation cannot be applied."""


def _gx_expectation(source: SuiteExpectation) -> Any:
    load_great_expectations()
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.registry import (
        get_expectation_impl,
        list_registered_expectation_implementations,
    )

    try:
        get_expectation_impl(source.type)
    except ExpectationNotFoundError:
        near = get_close_matches(source.type, list_registered_expectation_implementations(), 1)
        raise _Refused("unknown expectation" + (f" (did you mean {near[0]}?)" if near else "")) from None
    try:
        return ExpectationConfiguration(**source.as_config()).to_domain_obj()
    except Exception as error:  # pydantic's errors, and GX's own for wrong arguments
        found = getattr(error, "errors", None)
        if not callable(found):
            raise
        problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found())
        raise _Refused(f"wrong arguments: {problems}") from error


def _both(left: Column | None, right: Column) -> Column:
    return right if left is None else left & right


def _check_json_schema(json_schema: dict[str, Any]) -> None:
    from jsonschema import SchemaError  # type: ignore[import-untyped]
    from jsonschema.validators import validator_for  # type: ignore[import-untyped]

    try:
        validator_for(json_schema).check_schema(json_schema)
    except SchemaError as error:
        raise _Refused(f"json_schema is no JSON Schema: {error.message}") from error


def _breaks_json_schema(column: str, json_schema: dict[str, Any]) -> Column:
    """Mark values that do not match; GX's own condition raises at a value that is no JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    def breaks(value: str | None) -> bool:
        from jsonschema.validators import validator_for

        from rocketflow_store.spi.json_text import parse_json

        if value is None:
            return False
        try:
            return not validator_for(json_schema)(json_schema).is_valid(parse_json(value, allow_nan=True))
        except (ValueError, RecursionError):
            return True

    return F.udf(lambda value: breaks(value), "boolean")(F.col(column))
