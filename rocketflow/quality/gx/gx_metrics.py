"""Great Expectations' conditions and metrics of each expectation, resolved at the start of a run.

GX resolves its own metric graph on an empty DataFrame of the suite's columns. A row-level expectation gives a Spark
condition and the filters of its domain (`row_condition`, `ignore_row_if`, null filters), which the pass evaluates.
A table-level one gives aggregates; plain aggregates are observed in the pass.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from rocketflow.quality.gx.gx_judge import Judge
from rocketflow.quality.gx.loading import load_great_expectations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

RESULT_FORMAT: Final = {"result_format": "SUMMARY", "partial_unexpected_count": 20}
_BATCH: Final = "plan"


class MetricFailedError(Exception):
    """GX could not compute a metric; the message is GX's."""


VERDICT_ONLY: Final = {"result_format": "BOOLEAN_ONLY"}
"""The result format of a verdict without examples: each example list costs GX another Spark job."""


def runtime_configuration(result_format: dict[str, Any] = RESULT_FORMAT) -> dict[str, Any]:
    """Return the configuration of a validation; GX changes it, so every call returns a new one."""
    return {"result_format": dict(result_format), "catch_exceptions": False}


class _FilterRecorder:
    """Takes the place of a DataFrame while GX filters it to a domain, and records the conditions."""

    def __init__(self, schema: StructType, conditions: tuple[Any, ...] = ()) -> None:
        self.schema, self.conditions = schema, conditions

    def filter(self, condition: Any) -> _FilterRecorder:
        return _FilterRecorder(self.schema, (*self.conditions, condition))


class GxEngine:
    """GX's own Spark engine over one DataFrame."""

    def __init__(self, spark: SparkSession, rows: DataFrame, result_format: dict[str, Any] = RESULT_FORMAT) -> None:
        load_great_expectations()
        from rocketflow.quality.gx.gx_engine import OnceEngine

        self._format = result_format
        self.engine: Any = OnceEngine(persist=False, spark=spark)
        self.engine.load_batch_data(_BATCH, rows)

    def configuration(self) -> dict[str, Any]:
        """Return the configuration of validations with this engine's result format."""
        return runtime_configuration(self._format)

    def judge(self, expectation: Any) -> Judge:
        """Return the judge of an expectation, for metrics of many batches."""
        return Judge(expectation, self.engine, self.configuration())

    def needed(self, expectation: Any) -> dict[str, Any]:
        """Return {name: metric configuration} of the metrics that GX needs to judge the expectation."""
        found = expectation.get_validation_dependencies(
            execution_engine=self.engine, runtime_configuration=self.configuration()
        )
        return dict(found.metric_configurations)

    def resolve(self, expectations: Sequence[Any]) -> dict[Any, Any]:
        """Resolve all metrics of the expectations in one graph, as GX bundles them; return {metric id: value}."""
        return self._resolve([one for each in expectations for one in self.needed(each).values()])

    def failures(self, expectations: Sequence[Any]) -> list[Exception | None]:
        """Return the error of GX's judgement of each expectation over the DataFrame, or None."""
        try:
            together = self.resolve(expectations)
        except Exception:  # one of them failed; `_failure` finds which
            together = None
        return [self._failure(one, together) for one in expectations]

    def _failure(self, expectation: Any, metrics: dict[Any, Any] | None) -> Exception | None:
        try:
            expectation.metrics_validate(
                metrics=self.resolve([expectation]) if metrics is None else metrics,
                execution_engine=self.engine,
                runtime_configuration=self.configuration(),
            )
        except Exception as error:
            return error
        return None

    def related(self, metric: Any, name: str) -> Any:
        """Return the value of the metric `name` (a condition, an aggregate) of the same domain, without a Spark job."""
        from great_expectations.validator.metric_configuration import MetricConfiguration

        wanted = MetricConfiguration(
            metric_name=name,
            metric_domain_kwargs=metric.metric_domain_kwargs,
            metric_value_kwargs=metric.metric_value_kwargs,
        )
        return self._resolve([wanted])[wanted.id]

    def value(self, metric: Any) -> Any:
        """Return a metric's value."""
        return self._resolve([metric])[metric.id]

    def _resolve(self, metrics: Sequence[Any]) -> dict[Any, Any]:
        """Resolve metrics; raise MetricFailedError with the first reason."""
        from great_expectations.validator.validation_graph import ValidationGraph

        graph = ValidationGraph(execution_engine=self.engine)
        for metric in metrics:
            graph.build_metric_dependency_graph(metric_configuration=metric, runtime_configuration=self.configuration())
        values, failed = graph.resolve(runtime_configuration=self.configuration(), show_progress_bars=False)
        for one in failed.values():
            messages = sorted(str(each.exception_message) for each in one["exception_info"])
            raise MetricFailedError(messages[0] if messages else "a metric could not be computed")
        return dict(values)


class Domains:
    """Domains of metrics as Spark conditions."""

    def __init__(self, spark: SparkSession, schema: StructType) -> None:
        load_great_expectations()
        from great_expectations.execution_engine.sparkdf_batch_data import SparkDFBatchData
        from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

        self._engine: Any = SparkDFExecutionEngine(persist=False, spark=spark)
        self._engine.load_batch_data(_BATCH, SparkDFBatchData(self._engine, _FilterRecorder(schema)))

    def condition(self, domain: dict[str, Any]) -> Column | None:
        """Return GX's filter of a domain, or None if it takes all rows."""
        from pyspark.sql import functions as F  # noqa: N812

        found = self._engine.get_domain_records({**domain, "batch_id": _BATCH})
        conditions = [F.expr(one) if isinstance(one, str) else one for one in found.conditions]
        return reduce(lambda left, right: left & right, conditions) if conditions else None
