"""The lag of a query in its queues: messages, bytes and milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stores import Stores
from rocketflow.spark.source.stream_offset import QueueKey, StreamOffset

SAMPLE_UNITS: Final = 1000


@dataclass(frozen=True, slots=True)
class QueueLag:
    """The unread messages of one queue.

    `latest` is the queue's end, `messages` and `bytes` measure the backlog (records as stored; a large backlog is
    estimated from both its ends), and `ms` is the age of its oldest message. Without a backlog `bytes` and `ms` are 0.
    None stands for unknown: `bytes` if queue units are missing, `ms` if the oldest record is
    unreadable.
    """

    latest: int
    messages: int = 0
    bytes: int | None = 0
    ms: int | None = 0


def measure_lag(stores: Stores, key: QueueKey, next_offset: int, bounds: QueueBounds, now_ms: int) -> QueueLag:
    """Return the lag of one queue that was read up to `next_offset`."""
    start = max(next_offset, bounds.low)
    waiting = bounds.high - start
    if waiting <= 0:
        return QueueLag(bounds.high)
    sample = min(SAMPLE_UNITS, stores.exact_units // 2)
    if waiting <= stores.exact_units:
        sizes = stores.record_sizes(key, start, bounds.high)
    else:
        first = stores.record_sizes(key, start, start + sample)
        last = stores.record_sizes(key, bounds.high - sample, bounds.high)
        sizes = np.concatenate([first, last])
    size = int(sizes.sum()) * waiting // len(sizes) if sizes.all() else None
    stored_ms = stores.store_timestamp_ms(key, start)
    return QueueLag(bounds.high, waiting, size, None if stored_ms is None else max(now_ms - stored_ms, 0))


def lag_report(lags: Mapping[QueueKey, QueueLag], loss_events: int, lost_messages: int) -> dict[str, Any]:
    """Return the source's latest offset for a query's progress: keys sorted, unknown values omitted."""
    queues: dict[str, dict[str, dict[str, int]]] = {}
    for key in sorted(lags):
        lag = lags[key]
        values = {"bytes": lag.bytes, "latest": lag.latest, "messages": lag.messages, "ms": lag.ms}
        queues.setdefault(key.qualified_topic, {})[str(key.queue_id)] = {
            name: value for name, value in values.items() if value is not None
        }
    return {"dataLoss": {"events": loss_events, "messages": lost_messages}, "queues": queues, "version": 1}


def lag_of_report(report: Mapping[str, Any]) -> dict[QueueKey, QueueLag]:
    """Parse the lags of a report."""
    found: dict[QueueKey, QueueLag] = {}
    for name, queues in report["queues"].items():
        store, _, topic = name.rpartition("/")
        for queue_id, lag in queues.items():
            found[QueueKey(store, topic, int(queue_id))] = QueueLag(
                lag["latest"], lag["messages"], lag.get("bytes"), lag.get("ms")
            )
    return found


def next_offsets(offset: StreamOffset) -> dict[QueueKey, int]:
    """Return {queue: next offset} of a position."""
    return {key: position.next_offset for key, position in offset.positions.items()}
