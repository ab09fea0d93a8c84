"""Batch reads: a range with a start and an end, narrowed by the query's WHERE."""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketflow.spark.shared.plain_errors import with_plain_errors
from rocketflow.spark.source.filter_push_down import Narrowing, PushFilters
from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.row_reader import RangesPartition, RowReader
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.starting_positions import resolve_positions
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.task_planning import QueueRange, TaskLimits, plan_tasks
from rocketflow.spark.source.topic_check import missing_error, missing_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from rocketflow.spark.source.columns import Projection


@with_plain_errors
class RocketFlowBatchReader(DataSourceReader):
    """Reads all messages between a start and an end position."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._stores = open_stores(options)
        self._rows = RowReader.of(options, self._stores, projection)
        self._narrowing = Narrowing()

    @property
    def pushFilters(self) -> Callable[[list[Filter]], Iterable[Filter]]:
        """Return the push-down method if the option asks for it: Spark 4.3 applies the last WHERE to every use."""
        return PushFilters(self._narrowing) if self._options.push_down_predicate else super().pushFilters

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        limits = TaskLimits(len(os.sched_getaffinity(0)), options.min_partitions, options.max_records_per_partition)
        tasks = plan_tasks(self._ranges(), limits, self._stores.units_per_file)
        return [RangesPartition(ranges) for ranges in tasks] or [RangesPartition([])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangesPartition)
        return self._rows.read(partition.ranges)

    def _ranges(self) -> list[QueueRange]:
        options = self._options
        self._stores.check()
        chooser = QueueChooser(options.topics, options.include_system_topics)
        queues = self._stores.snapshot(chooser)
        missing = missing_names(chooser, self._stores, queues)
        if missing:
            raise missing_error(missing, self._stores)
        start_by_time, end_by_time = self._stores.start_by_time, self._stores.offset_by_time
        clamp, named = not options.fail_on_data_loss, options.topics.named
        starts = resolve_positions(options.starting, queues, start_by_time, clamp=clamp, named=named)
        ends = resolve_positions(options.ending, queues, end_by_time, clamp=clamp, named=named)
        taken = [key for key in queues if self._narrowing.takes(key)]
        ranges = [self._narrowing.bounds(key, starts[key], ends[key], start_by_time, end_by_time) for key in taken]
        ranges = [one for one in ranges if one.rows > 0]
        if self._narrowing.keys is None:
            return ranges
        return self._stores.narrowed_by_keys(ranges, self._narrowing.keys)
