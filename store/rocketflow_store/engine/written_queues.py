"""The queues of a store that is open for writing, as its reads see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.engine.derived_views import DerivedViews
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue


class WrittenQueues:
    """The writer's queues; readers see the records before `confirm_offset()`."""

    def __init__(
        self,
        paths: StorePaths,
        log: CommitLogView,
        views: DerivedViews,
        confirm_offset: Callable[[], int],
    ) -> None:
        self.paths = paths
        self._log, self._queues, self._batch_queues = log, views.queues, views.batch_queues
        self._confirm_offset = confirm_offset

    def names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of every queue."""
        return [*self._queues.names(), *((one.topic, one.queue_id) for one in self._batch_queues.all())]

    def plain(self) -> list[ConsumeQueue]:
        """Return the queues that do not belong to a BatchCQ topic."""
        return self._queues.all()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, None if it does not exist."""
        return self._queues.find(topic, queue_id)

    def find_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """Return a BatchCQ topic's queue, None if it does not exist."""
        return self._batch_queues.find(topic, queue_id)

    def bounds(self, topic: str, queue_id: int, *, nowait: bool = False) -> tuple[int, int]:
        """Return the (min, max) queue offsets that may be read."""
        confirmed = self._confirm_offset()
        batch_queue = self._batch_queues.find(topic, queue_id)
        if batch_queue is not None:
            return batch_queue.bounds(self._log.min_phy_offset, confirmed, nowait=nowait)
        end = self._queues.end(topic, queue_id, confirmed)
        return min(self._queues.low(topic, queue_id, end), end), end
