"""The queues of a store that another process may be writing: their names, and their promised bounds.

A reader never takes missing units or files for the begin or the end of a queue: the records of the store's writers
about it (`views/queues/promised_queues`) count too, unless retention or the deletion of its topic removed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.views.queues.first_kept import first_place

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.reading.followed_log import FollowedLog
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue, BatchQueueTable
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.promised_queues import PromisedQueues
    from rocketflow_store.views.queues.queue_table import FileQueueTable


class FollowedQueues:
    """Follows the queues of one store; without `promises` only their units count."""

    def __init__(
        self,
        paths: StorePaths,
        log: FollowedLog,
        table: FileQueueTable,
        batch_table: BatchQueueTable,
        promises: PromisedQueues | None,
    ) -> None:
        self.paths = paths
        self._log, self._table, self._batch_table, self._promises = log, table, batch_table, promises

    def refresh(self) -> None:
        """Look for new and deleted queues and files."""
        self._log.look()
        self._table.refresh()
        self._look_at_promises()

    def knows(self, topic: str, queue_id: int) -> bool:
        """Return True if the queue was seen before; nothing is looked up."""
        return self._table.find(topic, queue_id) is not None or self._batch_table.find(topic, queue_id) is not None

    def names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of every known queue, and of the current ones of BatchCQ topics."""
        return [*self._table.names(), *self.batch_names()]

    def batch_names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of the queues of BatchCQ topics."""
        self._batch_table.refresh()
        return [(one.topic, one.queue_id) for one in self._batch_table.all()]

    def plain(self) -> list[ConsumeQueue]:
        """Return every known queue that does not belong to a BatchCQ topic."""
        return self._table.all()

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue; look for it if it is unknown."""
        found = self._table.find(topic, queue_id)
        if found is None:
            self.refresh()
            found = self._table.find(topic, queue_id)
        return found

    def find_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """Return a BatchCQ topic's queue; look for it if it is unknown."""
        found = self._batch_table.find(topic, queue_id)
        if found is None and self.paths.batch_consume_queue.is_dir():
            self._batch_table.refresh()
            found = self._batch_table.find(topic, queue_id)
        return found

    def bounds(self, topic: str, queue_id: int, *, nowait: bool = False) -> tuple[int, int]:
        """Return the (min, max) queue offsets that may be read now."""
        batch_queue = self.find_batch(topic, queue_id)
        if batch_queue is not None:
            return self._batch_bounds(batch_queue, self._log.confirm_offset(), nowait=nowait)
        return self._bounds(topic, queue_id, self._log.confirm_offset())

    def all_bounds(self, confirm_offset: int | None) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the bounds of every queue for readers who see the log up to `confirm_offset`."""
        found = {key: self._bounds(*key, confirm_offset) for key in self._table.names()}
        for key in self.batch_names():
            batch_queue = self._batch_table.find(*key)
            if batch_queue is not None:
                found[key] = self._batch_bounds(batch_queue, confirm_offset)
        return found

    def _bounds(self, topic: str, queue_id: int, confirm_offset: int | None) -> tuple[int, int]:
        queue = self.find(topic, queue_id)
        if queue is None:
            return 0, 0
        self._log.look()  # the newest units may point into a CommitLog file that is not known yet
        promises = self._current_promises()
        end = self._table.end(topic, queue_id, confirm_offset)
        if promises is None:
            return min(self._table.low(topic, queue_id, end), end), end
        key = topic, queue_id
        if end < promises.plain.get(key, 0) and self._is_lost(promises, key, first_place(queue)):
            self._table.expect(topic, queue_id, promises.plain[key])
            end = self._table.end(topic, queue_id, confirm_offset)
        low = min(self._table.low(topic, queue_id, end), end)
        if queue.first_unit > 0 or queue.file_count == 0:
            low = self._low_of_lost_files(promises, queue, low, end)
        return low, end

    def _batch_bounds(
        self, queue: BatchConsumeQueue, confirm_offset: int | None, *, nowait: bool = False
    ) -> tuple[int, int]:
        self._log.look()  # the last unit may point into a CommitLog file that is not known yet
        low, high = queue.bounds(self._log.begin(), confirm_offset, self._log.view.holds, nowait=nowait)
        promises = self._current_promises()
        if promises is None:
            return low, high
        key, floor = (queue.topic, queue.queue_id), self._log.view.min_phy_offset
        first = promises.first_unit(key, floor, queue.UNIT_SIZE, batch=True)
        if high < promises.batch.get(key, 0) or 0 <= first < queue.first_unit:
            place = queue.units(queue.first_unit, queue.first_unit + 1)
            if self._is_lost(promises, key, int(place["phy_offset"][0]) if len(place) else -1, batch=True):
                first = promises.first_unit(key, self._log.view.min_phy_offset, queue.UNIT_SIZE, batch=True)
                low = 0 if high == 0 or 0 <= first < queue.first_unit else low
                high = max(high, promises.batch.get(key, 0))
        return low, high

    # -- the records of the store's writers

    def _current_promises(self) -> PromisedQueues | None:
        """Return the promises of the current writer, or of the last one."""
        promises = self._promises
        if promises is not None and self.paths.writer_mark() != promises.writer:
            self._look_at_promises()
        return promises

    def _look_at_promises(self) -> None:
        """Read what the store's writers recorded of its queues; queues without files are known too."""
        promises = self._promises
        if promises is None or not promises.look():
            return
        self._table.expect_nothing()
        self._batch_table.refresh()
        floor = self._log.view.min_phy_offset
        for key in sorted(promises.plain.keys() - set(self._table.names())):
            if promises.holds(key, floor, -1):
                self._table.restore(*key)
        for key in sorted(promises.batch):
            if self._batch_table.find(*key) is None and promises.holds(key, floor, -1, batch=True):
                self._batch_table.add(*key)

    def _is_lost(
        self, promises: PromisedQueues, key: tuple[str, int], first_phy_offset: int, *, batch: bool = False
    ) -> bool:
        """Return True if promised messages of a queue that do not exist are really lost."""
        self._log.look()  # retention removes the log first, and a topic is noted before it is deleted
        self._look_at_promises()
        promised = promises.batch if batch else promises.plain
        floor = self._log.view.min_phy_offset
        return key in promised and promises.holds(key, floor, first_phy_offset, batch=batch)

    def _low_of_lost_files(self, promises: PromisedQueues, queue: ConsumeQueue, low: int, end: int) -> int:
        """Return `low`, or the begin of missing files of a queue that retention did not remove."""
        key = queue.topic, queue.queue_id
        first = promises.first_unit(key, self._log.view.min_phy_offset, queue.UNIT_SIZE)
        if queue.file_count == 0:
            return min(max(first, 0), end)
        if 0 <= first < queue.first_unit:
            if self._is_lost(promises, key, first_place(queue)):
                queue.refresh()
                first = promises.first_unit(key, self._log.view.min_phy_offset, queue.UNIT_SIZE)
                return first if 0 <= first < queue.first_unit else low
        elif first < 0 and low == queue.first_unit and low < end:
            return self._low_of_log(promises, key, low)
        return low

    def _low_of_log(self, promises: PromisedQueues, key: tuple[str, int], low: int) -> int:
        """Return `low`, or the queue offset of a message at the log's begin that the first file should have."""
        floor = self._log.view.min_phy_offset
        found, _ = promises.head(floor).plain.get(key, (low, low))
        if found >= low:
            return low
        self._log.look()
        return found if self._log.view.min_phy_offset == floor else low
