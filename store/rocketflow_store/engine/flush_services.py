"""The flushing threads of a writing store, and its checkpoint: the log is synced first, then derived files, then that.

CommitRealTimeService writes the buffers of a TransientStorePool to the files, FlushRealTimeService syncs the log,
FlushConsumeQueueService queues, index and checkpoint.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.format.checkpoint_layout import logics_physical_offset
from rocketflow_store.log.group_flush import NO_TIMEOUT_S, ThoroughSchedule, flush_due
from rocketflow_store.metadata.native.durable_ends import DurableEnds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.telemetry.statistics import StoreStatistics
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

_FRONTIER_INTERVAL_MS: Final = 10_000
_FRONTIER_BYTES: Final = 512 << 20


class FlushServices:
    """Starts its threads at once; `stop` ends them, `flush` may be called at any time."""

    def __init__(
        self,
        parts: StoreParts,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
        failed: Callable[[str, Exception], object],
    ) -> None:
        self._parts, self._dispatch, self._statistics = parts, dispatch, statistics
        self._config, self._checkpoint = parts.config, parts.checkpoint
        self._views, self._writer = parts.views, parts.writer
        self._frontier = parts.writer.commit_log.committed_offset
        self._ends = DurableEnds()
        if parts.recovery.abort_found:  # otherwise the record of the last orderly stop has them
            self._ends.note((*key, parts.views.queues.end(*key)) for key in parts.views.queues.names())
            self._ends.note((one.topic, one.queue_id, one.bounds(0)[1]) for one in parts.views.batch_queues.all())
            self._write_ends()
        self._lock = threading.Lock()
        config = parts.config
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
        self.wakes = self._wakes_flush or self._commit_thread is not None
        """True if a put without a waiting caller wakes a thread (`appended`)."""
        self._log_thread = ServiceThread("flush-real-time", self.log_step, config.flush_interval_commit_log / 1000)
        self._queue_thread = ServiceThread(
            "flush-consume-queue", self.queues_step, config.flush_interval_consume_queue / 1000, failed=failed
        )

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
            self._flush_log()
        if self._config.sync_flush or self._dispatch.failure is not None:
            self._dispatch.follow()  # otherwise the appending thread dispatches, many units a queue at a time

    def queues_step(self) -> None:
        """Sync queues with enough waiting units; when time is up, everything (FlushConsumeQueueService)."""
        least_pages = self._queue_schedule.least_pages(self._config.clock.now_ms())
        ahead = self._dispatch.confirm_offset - self._frontier
        if ahead and (least_pages == 0 or ahead > _FRONTIER_BYTES):
            self.flush()
            return
        self._writer.fence.check()
        with self._lock:
            self._guard(lambda: self._views.queues.sync(least_pages * PAGE_BYTES))

    def flush(self) -> None:
        """Make log, queues, index and checkpoint durable, in this order; a recovery would start after them."""
        commit_log, dispatch, checkpoint = self._writer.commit_log, self._dispatch, self._checkpoint
        self._writer.fence.check()  # another sync cannot repair what a failed one left
        with self._lock:
            self._ends.note(self._parts.offsets.known())  # before the sync: all of them will be durable
            commit_log.commit()
            target, timestamp, phy_offset = self._flush_log()
            with dispatch.lock:
                dispatch.follow()
                if dispatch.confirm_offset <= commit_log.flushed_offset:  # no put came in between
                    target, timestamp, phy_offset = self._dispatched()
            self._guard(self._sync_derived)
            checkpoint.logics_msg_timestamp = max(timestamp, checkpoint.logics_msg_timestamp)
            self._note_queues(phy_offset, target)
            self._guard(self._write_checkpoint)
            if self._ends.moved:
                self._guard(self._write_ends)
            self._guard(lambda: dispatch.confirm_file.durable(target, timestamp))
            self._frontier = target

    def flush_last(self) -> None:
        """Make everything durable at the end: threads are stopped, no caller puts."""
        parts, checkpoint = self._parts, self._checkpoint
        parts.writer.commit_log.commit()
        parts.writer.flush.make_durable(parts.writer.commit_log.committed_offset, NO_TIMEOUT_S)
        self._dispatch.follow()
        parts.sync_everything()
        parts.views.queues.sync_directories()
        checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = self._dispatch.dispatched_timestamp
        self._note_queues(self._dispatch.dispatched_phy_offset, self._dispatch.confirm_offset)
        self._write_checkpoint()

    def _dispatched(self) -> tuple[int, int, int]:
        """Return the end of the dispatched log, and the store time (ms) and physical offset of its last record."""
        dispatch = self._dispatch
        return dispatch.confirm_offset, dispatch.dispatched_timestamp, dispatch.dispatched_phy_offset

    def _note_queues(self, phy_offset: int, end: int) -> None:
        """Set the checkpoint's offset of durable queues to the record at `phy_offset`, the last before `end`."""
        if self._config.tag_entries:
            self._checkpoint.logics_physical_offset = logics_physical_offset(phy_offset, end)

    def _flush_log(self) -> tuple[int, int, int]:
        """Sync the log; return the values of `_dispatched` before that.

        Raises:
            FlushDiskTimeoutError: another thread's sync takes longer than syncFlushTimeout; nothing counts as durable.
        """
        with self._dispatch.lock:
            dispatched = self._dispatched()
        self._writer.flush.make_durable(
            self._writer.commit_log.committed_offset, self._config.sync_flush_timeout / 1000
        )
        self._checkpoint.physic_msg_timestamp = max(dispatched[1], self._checkpoint.physic_msg_timestamp)
        return dispatched

    def _sync_derived(self) -> None:
        self._views.batch_queues.sync()
        self._views.queues.sync()
        self._views.queues.sync_directories()
        with self._dispatch.lock:  # the newest index file may just be replaced
            self._views.index.sync()

    @contextmanager
    def forgetting(self, topic: str) -> Iterator[None]:
        """Hold back flushes while a topic is deleted: none may record the ends of its queues, which would be missed."""
        with self._lock:
            self._ends.without_topic(topic)
            self._write_ends()
            yield

    def _write_ends(self) -> None:
        self._ends.index = {one.path.name: one.header.end_phy_offset for one in self._views.index.files if one.entries}
        self._ends.write(self._parts.paths)

    def _write_checkpoint(self) -> None:
        fields = self._checkpoint
        fields.index_msg_timestamp = max(fields.index_msg_timestamp, self._views.index.full_end_timestamp)
        os_files.write_atomically(self._parts.paths.checkpoint, fields.encode())

    def _guard(self, sync: Callable[[], object]) -> None:
        """Run a sync of derived files; a failed one fences the store, since no later sync can be trusted."""
        self._writer.fence.guard(sync, any_error=False)
