"""An expectation asked again and again: what GX wants to know for it is worked out once.

For every verdict GX works out anew which metrics an expectation needs, from configurations that it makes sixty times:
of ten expectations that takes half as long as a commit. It is the same for every batch.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any


class Judge:
    """Stands for `expectation` while GX's own code validates metrics."""

    def __init__(self, expectation: Any, engine: Any, runtime_configuration: dict[str, Any]) -> None:
        self._expectation = expectation
        self._needed = expectation.get_validation_dependencies(
            execution_engine=engine, runtime_configuration=runtime_configuration
        )
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._expectation, name)

    def get_validation_dependencies(self, *_: Any, **__: Any) -> Any:
        """What GX asks for first; it changes the result format that it is given."""
        return replace(self._needed, result_format=deepcopy(self._needed.result_format))

    def verdict(self, metrics: dict[Any, Any], runtime_configuration: dict[str, Any]) -> Any:
        """GX's result for these values of the metrics."""
        return type(self._expectation).metrics_validate(
            self, metrics=metrics, execution_engine=self._engine, runtime_configuration=runtime_configuration
        )
