"""Searches for queue offsets by store time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.reading.queue_units import units_of_messages
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.offset_by_time import OffsetByTime, TimeBoundary, offset_by_time

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.settings.store_config import StoreConfig


class TimeSearch:
    """Searches in the queues of one store."""

    def __init__(self, log: CommitLogView, queues: QueueTable, config: StoreConfig) -> None:
        self._log, self._queues, self._config = log, queues, config

    def offset(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> int:
        """Return the queue offset that `search` finds; log records beside it that cannot be read."""
        found = self.search(topic, queue_id, timestamp_ms, boundary)
        start, stop = found.unreadable
        if start < stop:
            paths = self._queues.paths
            why = f"passed over: what was stored by {timestamp_ms} ms cannot be read; see store verify"
            directory = paths.consume_queue / topic / str(queue_id)
            events.report(events.SKIPPED, paths.root, directory, why, offset=start, count=stop - start)
        return found.offset

    def search(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> OffsetByTime:
        """Return the queue offset by store time, and the unreadable records beside it."""
        wanted = TimeBoundary.parse(boundary)
        low, high = self._queues.bounds(topic, queue_id)
        queue, batch_queue = self._queues.find(topic, queue_id), self._queues.find_batch(topic, queue_id)
        if queue is None and batch_queue is None:
            return OffsetByTime(low, (low, low))
        identity = queue_identity(self._config, topic, queue_id)

        def store_timestamps(start: int, stop: int) -> npt.NDArray[np.int64]:
            offsets = np.arange(start, stop)
            if batch_queue is not None:
                units, offsets = units_of_messages(batch_queue.units_holding(start, stop), start, stop)
            else:
                assert queue is not None
                units = queue.units_or_zeros(start, stop)
            return self._log.store_timestamps(units, offsets, identity)

        per_file = queue.units_per_file if batch_queue is None and queue is not None else max(high - low, 1)
        return offset_by_time(store_timestamps, low, high, per_file, timestamp_ms, wanted)
