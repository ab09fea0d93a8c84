"""The lag of a stream's queues, measured again only once something has changed."""

from __future__ import annotations

from typing import Any

from rocketflow.spark.source.data_loss import LossCounter
from rocketflow.spark.source.lag import QueueLag, lag_report, measure_lag, next_offsets
from rocketflow.spark.source.stores import Stores
from rocketflow.spark.source.stream_offset import QueueKey, StreamOffset
from rocketflow.spark.source.stream_queues import Queues


class StreamReport:
    """The newest report of one query run."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._state: object = None
        self._newest: dict[str, Any] = {}

    def report(self, end: StreamOffset, queues: Queues, losses: LossCounter, now_ms: int) -> dict[str, Any]:
        """Return the lag of each queue after `end`, and the losses."""
        state = (end, queues, losses.events)
        if self._state != state:
            offsets = next_offsets(end)
            lags: dict[QueueKey, QueueLag] = {
                key: measure_lag(self._stores, key, offsets.get(key, bounds.low), bounds, now_ms)
                for key, bounds in queues.items()
            }
            self._state, self._newest = state, lag_report(lags, losses.events, losses.messages)
        return self._newest
