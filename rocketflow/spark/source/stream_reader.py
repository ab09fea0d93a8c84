"""The stream reader that Spark drives: a thin shell around StreamPlanner (driver) and RowReader (executors)."""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from rocketflow.spark.shared.plain_errors import with_plain_errors
from rocketflow.spark.source.row_reader import RangesPartition, RowReader
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.stream_offset import StreamOffset
from rocketflow.spark.source.stream_planner import StreamPlanner

if TYPE_CHECKING:
    import pyarrow as pa

    from rocketflow.spark.source.columns import Projection

_NO_LIMIT: Final = ReadMaxRows((1 << 63) - 1)


@with_plain_errors
class RocketFlowStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads queues as a stream. Pickled for every task, with only the parts that `read` needs."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._rows = RowReader.of(options, open_stores(options), projection)
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_rows": self._rows, "_planner": None}

    @property
    def planner(self) -> StreamPlanner:
        """The driver's side, created at its first use."""
        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner

    def initialOffset(self) -> dict[str, Any]:
        return self.planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a limit that represents all limits of the options: Spark has no limit of several parts.

        It never is ReadAllAvailable: that is what `Trigger.Once` passes.
        """
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return _NO_LIMIT

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = self.planner.latest(StreamOffset.from_json(start), limited=not isinstance(limit, ReadAllAvailable))
        return start if end is None else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.planner.report()

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.prepare_available_now()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        tasks = self.planner.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return [RangesPartition(ranges) for ranges in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        return self._rows.read(partition.ranges)

    def commit(self, end: dict[str, Any]) -> None:
        self.planner.committed(StreamOffset.from_json(end))

    def stop(self) -> None:
        """Do nothing: the reader holds no resources."""
