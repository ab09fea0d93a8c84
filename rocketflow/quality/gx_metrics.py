"""Great Expectations asked at the start of a run: which condition, over which rows, each expectation stands for.

GX resolves its own metric graph on an empty DataFrame of the suite's columns. What it makes of a row-level expectation
is a Spark condition and the filters of its domain (`row_condition`, `ignore_row_if`, null filters): these are what
the pass evaluates. What it makes of a table-level one are aggregates: those that are plain are observed in the pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RESULT_FORMAT: Final = {"result_format": "SUMMARY", "partial_unexpected_count": 20}
_BATCH: Final = "plan"


class MetricFailedError(Exception):
    """GX could not make a metric; its own words."""


def runtime_configuration() -> dict[str, Any]:
    """What an expectation is validated under; GX changes it, so that everybody gets a new one."""
    return {"result_format": dict(RESULT_FORMAT), "catch_exceptions": False}


class _FilterRecorder:
    """Stands for a DataFrame while GX restricts it to a domain, and keeps the conditions."""

    def __init__(self, schema: StructType, conditions: tuple[Any, ...] = ()) -> None:
        self.schema, self.conditions = schema, conditions

    def filter(self, condition: Any) -> _FilterRecorder:
        return _FilterRecorder(self.schema, (*self.conditions, condition))


@dataclass(slots=True)
class Resolved:
    """An expectation's metrics on the empty DataFrame: `needed` {name: id}, `values` {id: value}."""

    needed: dict[str, Any]
    domains: dict[str, dict[str, Any]]
    values: dict[Any, Any] = field(default_factory=dict)

    def only(self, name: str) -> Any:
        """The value of the one metric of this name, None without one."""
        return next((value for key, value in self.values.items() if key[0] == name), None)

    def ending(self, suffix: str, besides: str = "") -> Any:
        """The value of the one metric whose name ends so and is not `besides`."""
        return next((v for key, v in self.values.items() if key[0].endswith(suffix) and key[0] != besides), None)


class GxEngine:
    """GX's own Spark engine over one DataFrame."""

    def __init__(self, spark: SparkSession, rows: DataFrame) -> None:
        from great_expectations.execution_engine import SparkDFExecutionEngine

        self.engine: Any = SparkDFExecutionEngine(persist=False, spark=spark)
        self.engine.load_batch_data(_BATCH, rows)

    def resolve(self, expectations: Sequence[Any], configuration: dict[str, Any] | None = None) -> dict[Any, Any]:
        """All metrics of the expectations in one graph, as GX bundles them; MetricFailedError with the first reason."""
        from great_expectations.validator.validation_graph import ValidationGraph

        graph = ValidationGraph(execution_engine=self.engine)
        for expectation in expectations:
            runtime = configuration or runtime_configuration()
            needed = expectation.get_validation_dependencies(
                execution_engine=self.engine, runtime_configuration=runtime
            )
            for metric in needed.get_metric_configurations():
                graph.build_metric_dependency_graph(metric_configuration=metric, runtime_configuration=runtime)
        values, failed = graph.resolve(
            runtime_configuration=configuration or runtime_configuration(), show_progress_bars=False
        )
        for one in failed.values():
            told = sorted(str(each.exception_message) for each in one["exception_info"])
            raise MetricFailedError(told[0] if told else "a metric could not be made")
        return dict(values)

    def plan(self, expectation: Any) -> Resolved:
        """What an expectation needs, and what GX makes of it here."""
        needed = self.needed(expectation)
        values = self.resolve([expectation])
        return Resolved(
            {name: one.id for name, one in needed.items()},
            {name: dict(one.metric_domain_kwargs) for name, one in needed.items()},
            values,
        )

    def needed(self, expectation: Any) -> dict[str, Any]:
        """{name: metric configuration} that GX wants values of, to judge the expectation."""
        found = expectation.get_validation_dependencies(
            execution_engine=self.engine, runtime_configuration=runtime_configuration()
        )
        return dict(found.metric_configurations)


class Domains:
    """Domains of metrics as Spark conditions."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        from great_expectations.execution_engine import SparkDFExecutionEngine
        from great_expectations.execution_engine.sparkdf_batch_data import SparkDFBatchData

        self._engine: Any = SparkDFExecutionEngine(persist=False, spark=spark)
        self._engine.load_batch_data(_BATCH, SparkDFBatchData(self._engine, _FilterRecorder(schema)))

    def condition(self, domain: dict[str, Any]) -> Column | None:
        """What GX filters by for a domain; None where it takes all rows."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self._engine.get_domain_records({**domain, "batch_id": _BATCH})
        conditions = [F.expr(one) if isinstance(one, str) else one for one in found.conditions]
        return reduce(lambda left, right: left & right, conditions) if conditions else None
