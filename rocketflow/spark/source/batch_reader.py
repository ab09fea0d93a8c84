"""Batch reads: a range with a start and an end, narrowed by the query's WHERE."""

# ruff: noqa: N802 - the method names are Spark's

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rocketflow.spark.source.filter_push_down import KeyCandidates, Narrowing, PushFilters, narrowed_by_keys
from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.row_reader import RangesPartition, RowReader
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.starting_positions import resolve_positions
from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow.spark.source.task_planning import QueueRange, TaskLimits, plan_tasks
from rocketflow.spark.source.topic_check import MissingTopicError, check_stores, describe_missing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from rocketflow.spark.source.columns import Projection

_MAX_CANDIDATES: Final = 100_000
_LMQ_PREFIX: Final = "%LMQ%"


class RocketFlowBatchReader(DataSourceReader):
    """Reads all messages between a start and an end position."""

    def __init__(self, options: SourceOptions, projection: Projection) -> None:
        self._options = options
        self._stores = SourceStores(options.stores)
        self._rows = RowReader(self._stores, projection, options.tags, options.sql, options.fail_on_data_loss)
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
        check_stores(self._stores)
        existing = self._stores.snapshot()
        chooser = QueueChooser(options.topics, options.include_system_topics)
        queues = {key: existing[key] for key in chooser.chosen(existing)}
        missing = chooser.missing(queues)
        if missing:
            raise MissingTopicError(describe_missing(missing, (key.qualified_topic for key in existing)))
        start_by_time, end_by_time = self._stores.start_by_time, self._stores.offset_by_time
        clamp, named = not options.fail_on_data_loss, options.topics.named
        starts = resolve_positions(options.starting, queues, start_by_time, clamp=clamp, named=named)
        ends = resolve_positions(options.ending, queues, end_by_time, clamp=clamp, named=named)
        taken = [key for key in queues if self._narrowing.takes(key)]
        ranges = [self._narrowing.bounds(key, starts[key], ends[key], start_by_time, end_by_time) for key in taken]
        ranges = [one for one in ranges if one.rows > 0]
        if self._narrowing.keys is None:
            return ranges
        candidates = self._key_candidates(self._narrowing.keys, ranges)
        return narrowed_by_keys(ranges, candidates, self._stores.first_offset_at)

    def _key_candidates(self, keys: set[str], ranges: Sequence[QueueRange]) -> dict[str, KeyCandidates]:
        """Return the messages that each store's key index names; a store with an unreliable index is omitted."""
        found: dict[str, KeyCandidates] = {}
        for name in {one.key.store for one in ranges}:
            topics = {one.key.topic for one in ranges if one.key.store == name}
            covered = self._stores.index_coverage(name)
            if covered is None or any(topic.startswith(_LMQ_PREFIX) for topic in topics):
                continue
            candidates = KeyCandidates(*covered)
            for topic, key in itertools.product(sorted(topics), sorted(keys)):
                places = self._stores.offsets_of_key(name, topic, key, _MAX_CANDIDATES)
                if places is None:
                    break
                for queue_id, offset in places:
                    candidates.offsets.setdefault(QueueKey(name, topic, queue_id), []).append(offset)
            else:
                found[name] = candidates
        return found
