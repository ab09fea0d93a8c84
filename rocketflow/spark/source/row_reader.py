"""Reading queue ranges into RecordBatches, on the executors."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from rocketflow.spark.shared.worker_heap import freeze_heap_once
from rocketflow.spark.source.columns import Projection
from rocketflow.spark.source.data_loss import DataLossError, Loss, loss_of_range
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stores import Stores
from rocketflow.spark.source.task_planning import QueueRange
from rocketflow_store import OffsetOutOfRangeError, OnBadBody, RaiseFaults, SkipFaults

if TYPE_CHECKING:
    from rocketflow.spark.source.source_options import SourceOptions
    from rocketflow_store.spi.reads import Condition

_log: Final = logging.getLogger("rocketflow.spark.rows")
BATCH_BYTES: Final = 1 << 22
_MERGE_BELOW_BYTES: Final = BATCH_BYTES // 4


class RangesPartition(InputPartition):
    """One task's share: queue ranges, read one after the other."""

    def __init__(self, ranges: Sequence[QueueRange]) -> None:
        super().__init__(None)
        self.ranges = tuple(ranges)

    def __repr__(self) -> str:
        return f"RangesPartition({', '.join(f'{one.key} [{one.start}, {one.end})' for one in self.ranges)})"


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads ranges under a projection and filters. Small: it is pickled for every task."""

    stores: Stores
    projection: Projection
    tags: str | None
    sql: str | None
    fail_on_data_loss: bool
    on_bad_body: OnBadBody

    @classmethod
    def of(cls, options: SourceOptions, stores: Stores, projection: Projection) -> RowReader:
        """Return the reader for the options of a read."""
        fail, bad = options.fail_on_data_loss, options.on_bad_body
        return cls(stores, projection, options.tags, options.sql, fail, bad)

    def read(self, ranges: Sequence[QueueRange]) -> Iterator[pa.RecordBatch]:
        """Yield RecordBatches of the projection's exact schema, of about BATCH_BYTES each.

        Raises:
            DataLossError: a range no longer exists; with failOnDataLoss=false the rest of it is read.
        """
        freeze_heap_once()
        return _merged(self._batches(ranges), self.projection.arrow_schema)

    def _batches(self, ranges: Sequence[QueueRange]) -> Iterator[pa.RecordBatch]:
        condition = _condition(self.sql)
        schema = self.projection.arrow_schema
        for one in ranges:
            for batch in self._queue(one, condition):
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _queue(self, one: QueueRange, condition: Condition | None) -> Iterator[pa.RecordBatch]:
        columns, bad = self.projection.columns, self.on_bad_body
        faults = RaiseFaults(bad) if self.fail_on_data_loss else SkipFaults(on_bad_body=bad)
        try:
            yield from self.stores.batches(
                one, columns, self.tags, condition, faults=faults, max_batch_bytes=BATCH_BYTES
            )
        except OffsetOutOfRangeError as error:
            bounds = QueueBounds(error.min_offset, error.max_offset)
            why = f"messages {one.start} to {one.end - 1} were planned but do not all exist any more"
            loss = loss_of_range(one, bounds) or Loss(one.key, one.start, *bounds, 1, why, bounds.low)
            raise DataLossError([loss]) from error


def _condition(sql: str | None) -> Condition | None:
    if sql is None:
        return None
    from rocketflow.spark.source.sql_rows import SqlRows

    return SqlRows(sql).mask


def _merged(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Join small batches: Spark sends a message for each batch."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        bytes_ = batch.nbytes
        if waiting and size + bytes_ > BATCH_BYTES:
            yield _joined(waiting, schema)
            waiting, size = [], 0
        if not waiting and bytes_ >= _MERGE_BELOW_BYTES:
            yield batch
            continue
        waiting.append(batch)
        size += bytes_
    if waiting:
        yield _joined(waiting, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined: Any = pa.concat_batches(batches)
    return pa.RecordBatch.from_arrays(joined.columns, schema=schema)
