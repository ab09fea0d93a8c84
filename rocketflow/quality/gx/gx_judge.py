"""A judge of one expectation for many batches, which computes once what GX needs to know for it.

For every verdict GX computes again which metrics an expectation needs, from configurations that it creates sixty times:
for ten expectations that takes half as long as a commit. The result is the same for every batch.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any


class Judge:
    """Takes the place of `expectation` while GX's own code validates metrics."""

    def __init__(self, expectation: Any, engine: Any, runtime_configuration: dict[str, Any]) -> None:
        self._expectation = expectation
        self._needed = expectation.get_validation_dependencies(
            execution_engine=engine, runtime_configuration=runtime_configuration
        )
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._expectation, name)

    def get_validation_dependencies(self, *_: Any, **__: Any) -> Any:
        """Return a copy of the metrics that GX needs: GX changes the result format in it."""
        return replace(self._needed, result_format=deepcopy(self._needed.result_format))

    def verdict(self, metrics: dict[Any, Any], runtime_configuration: dict[str, Any]) -> Any:
        """Return GX's result for these values of the metrics."""
        return type(self._expectation).metrics_validate(
            self, metrics=metrics, execution_engine=self._engine, runtime_configuration=runtime_configuration
        )
