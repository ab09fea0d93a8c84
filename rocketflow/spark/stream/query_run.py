"""A streaming query of a job: started on its checkpoint, and followed until it ends."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from rocketflow.errors import UsageError
from rocketflow.spark.shared.checkpoint import drop_unfinished_first_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

AVAILABLE_NOW: Final = "available-now"
"""The trigger of a job that ends when it has read all messages; every other trigger is an interval."""
_POLL_S: Final = 0.25
_INTERVAL: Final = re.compile(
    r"\s*(interval\s+)?(\d+(\.\d+)?\s*(week|day|hour|minute|(milli|micro)?second)s?\s*)+", re.ASCII | re.IGNORECASE
)


def check_trigger(trigger: str) -> None:
    """Raise UsageError if the trigger is neither AVAILABLE_NOW nor looks like an interval."""
    if trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(trigger):
        raise UsageError(f'--trigger {trigger!r}: {AVAILABLE_NOW}, or an interval such as "5 seconds"')


def start_query(writer: DataStreamWriter, name: str, checkpoint: str, trigger: str) -> StreamingQuery:
    """Start a query that Spark's UI shows as `name`, and print a line on stderr.

    `trigger` is AVAILABLE_NOW or an interval as Spark writes it ("5 seconds").
    """
    drop_unfinished_first_entry(checkpoint)
    print(f"{name}: waiting for the first batch", file=sys.stderr, flush=True)
    writer = writer.queryName(name).option("checkpointLocation", checkpoint)
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=trigger).start()


def await_query(query: StreamingQuery, batch_done: Callable[[int, int], None] | None = None) -> None:
    """Wait until the query has read all messages, is stopped (an interrupt stops it), or fails; raise its error.

    `batch_done` is called with the id and the number of rows of every batch that had rows.
    """
    seen = -1
    try:
        while query.isActive:
            query.awaitTermination(_POLL_S)  # type: ignore[arg-type]
            seen = _follow(query, seen, batch_done)
    except KeyboardInterrupt:
        query.stop()
    _follow(query, seen, batch_done)
    failure = query.exception()
    if failure is not None:
        raise failure


def _follow(query: StreamingQuery, seen: int, batch_done: Callable[[int, int], None] | None) -> int:
    if batch_done is None:
        return seen
    for progress in query.recentProgress:
        batch, rows = _of(progress, "batchId"), _of(progress, "numInputRows")
        if batch > seen:
            seen = batch
            if rows:
                batch_done(batch, rows)
    return seen


def _of(progress: Any, name: str) -> int:
    return int(progress[name] if isinstance(progress, dict) else getattr(progress, name))
