"""The flushing threads of a writing store.

CommitRealTimeService writes the buffers of a TransientStorePool to the files, FlushRealTimeService syncs the log,
FlushConsumeQueueService queues, index and checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.log.commit_log import flush_due
from rocketflow_store.log.group_flush import ThoroughSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.engine.durability import Durability
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

_FRONTIER_INTERVAL_MS: Final = 10_000
_FRONTIER_BYTES: Final = 512 << 20


class FlushServices:
    """Starts its threads at once; `stop` ends them."""

    def __init__(
        self,
        parts: StoreParts,
        dispatch: ConfirmedDispatch,
        durability: Durability,
        statistics: StoreStatistics,
        failed: Callable[[str, Exception], object],
    ) -> None:
        self._dispatch, self.durability, self._statistics = dispatch, durability, statistics
        self._writer = parts.writer
        self._config = config = parts.config
        self._log_schedule = ThoroughSchedule(
            config.flush_commit_log_least_pages, config.flush_commit_log_thorough_interval
        )
        self._queue_schedule = ThoroughSchedule(
            config.flush_consume_queue_least_pages,
            min(config.flush_consume_queue_thorough_interval, _FRONTIER_INTERVAL_MS),
        )
        self._commit_schedule = ThoroughSchedule(
            config.commit_commit_log_least_pages, config.commit_commit_log_thorough_interval
        )
        self._commit_thread: ServiceThread | None = None
        if config.transient_store_pool_used:
            self._commit_thread = ServiceThread(
                "commit-real-time", self.commit_step, config.commit_interval_commit_log / 1000
            )
        self._wakes_flush = not config.flush_commit_log_timed
        self._log_thread = ServiceThread("flush-real-time", self.log_step, config.flush_interval_commit_log / 1000)
        self._queue_thread = ServiceThread(
            "flush-consume-queue", self.queues_step, config.flush_interval_consume_queue / 1000, failed=failed
        )

    @property
    def wakes(self) -> bool:
        """Return whether a put without a waiting caller wakes a thread (`appended`)."""
        return self._wakes_flush or self._commit_thread is not None

    def stop(self) -> None:
        """End the threads and wait for them."""
        if self._commit_thread is not None:
            self._commit_thread.stop()
        self._log_thread.stop()
        self._queue_thread.stop()

    def appended(self) -> None:
        """Wake the thread that handles a put without a waiting caller, as RocketMQ's handleDiskFlush does."""
        if self._commit_thread is not None:
            commit_log = self._writer.commit_log
            waiting = commit_log.wrote_offset - commit_log.committed_offset
            if waiting >= self._config.commit_commit_log_least_pages * PAGE_BYTES:
                self._commit_thread.wake()
        elif self._wakes_flush:
            self._log_thread.wake()

    def commit_step(self) -> None:
        """Write buffers to the files, for readers, if enough is waiting or time is up (CommitRealTimeService)."""
        least_pages = self._commit_schedule.least_pages(self._config.clock.now_ms())
        if self._writer.commit_log.commit(least_pages):
            self._dispatch.follow()
            if self._wakes_flush:
                self._log_thread.wake()

    def log_step(self) -> None:
        """Sync the log if enough is waiting or time is up (FlushRealTimeService)."""
        now_ms = self._config.clock.now_ms()
        self._statistics.sample(now_ms)
        least_pages = self._log_schedule.least_pages(now_ms)
        if self._config.sync_flush:
            least_pages = 0  # a caller may wait for it
        commit_log = self._writer.commit_log
        end, size = commit_log.committed_offset, self._config.mapped_file_size_commit_log
        if flush_due(end, commit_log.flushed_offset, least_pages, size):
            self.durability.sync_log()
        if self._config.sync_flush or self._dispatch.failure is not None:
            self._dispatch.follow()  # otherwise the appending thread dispatches, many units a queue at a time
        self.durability.store_synced(now_ms)

    def queues_step(self) -> None:
        """Sync queues with enough waiting units; when time is up, everything (FlushConsumeQueueService)."""
        now_ms = self._config.clock.now_ms()
        self.durability.store_synced(now_ms)  # flush-real-time may have a longer interval
        least_pages = self._queue_schedule.least_pages(now_ms)
        ahead = self.durability.ahead
        if ahead and (least_pages == 0 or ahead > _FRONTIER_BYTES):
            self.durability.flush()
        else:
            self.durability.sync_queues(least_pages * PAGE_BYTES)
