"""The stream reader of options that are wrong."""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rocketflow.spark.shared.plain_errors import with_plain_errors


@with_plain_errors
class RefusedReader(DataSourceStreamReader):
    """Raises an error when Spark first uses it: Spark 4.3 hides one that is raised while a stream reader is created."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self, *given: Any) -> dict[str, Any]:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()

    def commit(self, end: dict[str, Any]) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
