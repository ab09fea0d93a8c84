"""Great Expectations' Spark engine over one DataFrame, which computes no metric twice.

GX resolves each metric together with the metrics that it depends on, the row count among them: a Spark job each
time. Importing this module loads Great Expectations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from great_expectations.execution_engine.sparkdf_execution_engine import SparkDFExecutionEngine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from great_expectations.validator.metric_configuration import MetricConfiguration


class OnceEngine(SparkDFExecutionEngine):
    """An engine whose batch data is loaded once, so that values can be kept."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._values: dict[Any, Any] = {}

    def resolve_metrics(
        self,
        metrics_to_resolve: Iterable[MetricConfiguration],
        metrics: dict[Any, Any] | None = None,
        runtime_configuration: dict[str, Any] | None = None,
    ) -> dict[Any, Any]:
        """Resolve as GX does, but compute only metrics that were not computed before."""
        asked = list(metrics_to_resolve)
        new = [one for one in asked if one.id not in self._values]
        if new:
            self._values |= super().resolve_metrics(new, metrics, runtime_configuration)
        return {one.id: self._values[one.id] for one in asked}
