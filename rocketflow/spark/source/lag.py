"""How far a query is behind its queues: in messages, bytes and milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rocketflow.spark.source.store_access import QueueBounds, SourceStores
from rocketflow.spark.source.stream_offset import QueueKey, StreamOffset

EXACT_UNITS: Final = 100_000
SAMPLE_UNITS: Final = 1000


@dataclass(frozen=True, slots=True)
class QueueLag:
    """What of one queue is not read yet.

    `latest` is the queue's end; `messages` and `bytes` (records as stored; estimated from both ends of a backlog of
    more than 100,000 messages) wait; the oldest of them was stored `ms` milliseconds ago. Both are 0 where none waits;
    None stands for what is not known: bytes where queue units are gone, `ms` where the oldest record cannot be read.
    """

    latest: int
    messages: int = 0
    bytes: int | None = 0
    ms: int | None = 0


def measure_lag(stores: SourceStores, key: QueueKey, next_offset: int, bounds: QueueBounds, now_ms: int) -> QueueLag:
    """The lag of one queue that is read up to `next_offset`."""
    start = max(next_offset, bounds.low)
    waiting = bounds.high - start
    if waiting <= 0:
        return QueueLag(bounds.high)
    if waiting <= EXACT_UNITS:
        sizes = stores.record_sizes(key, start, bounds.high)
    else:
        first = stores.record_sizes(key, start, start + SAMPLE_UNITS)
        last = stores.record_sizes(key, bounds.high - SAMPLE_UNITS, bounds.high)
        sizes = np.concatenate([first, last])
    size = int(sizes.sum()) * waiting // len(sizes) if sizes.all() else None
    stored_ms = stores.store_timestamp_ms(key, start)
    return QueueLag(bounds.high, waiting, size, None if stored_ms is None else max(now_ms - stored_ms, 0))


def lag_report(lags: Mapping[QueueKey, QueueLag], loss_events: int, lost_messages: int) -> dict[str, Any]:
    """What the source reports as its latest offset in a query's progress; keys sorted, what is unknown left out."""
    queues: dict[str, dict[str, dict[str, int]]] = {}
    for key in sorted(lags):
        lag = lags[key]
        told = {"bytes": lag.bytes, "latest": lag.latest, "messages": lag.messages, "ms": lag.ms}
        queues.setdefault(key.qualified_topic, {})[str(key.queue_id)] = {
            name: value for name, value in told.items() if value is not None
        }
    return {"dataLoss": {"events": loss_events, "messages": lost_messages}, "queues": queues, "version": 1}


def lag_of_report(report: Mapping[str, Any]) -> dict[QueueKey, QueueLag]:
    """The lags in a report."""
    found: dict[QueueKey, QueueLag] = {}
    for name, queues in report["queues"].items():
        store, _, topic = name.rpartition("/")
        for queue_id, lag in queues.items():
            found[QueueKey(store, topic, int(queue_id))] = QueueLag(
                lag["latest"], lag["messages"], lag.get("bytes"), lag.get("ms")
            )
    return found


def next_offsets(offset: StreamOffset) -> dict[QueueKey, int]:
    """{queue: next offset} of a position."""
    return {key: position.next_offset for key, position in offset.positions.items()}
