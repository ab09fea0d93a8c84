"""Syncs of a writing store, in this order: the log, queues and index, the checkpoint; then the durable frontier.

A recovery starts after the frontier. How far the log alone is synced is stored more often, at least each second: before
that offset recovery takes no bad record for a torn tail.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.format.checkpoint_layout import logics_physical_offset
from rocketflow_store.log.group_flush import NO_TIMEOUT_S
from rocketflow_store.metadata.native.durable_ends import DurableEnds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch


_SYNCED_INTERVAL_MS: Final = 500
"""The least time between two writes of the log's synced offset; the flushing threads call at least twice a second."""


class Durability:
    """Syncs the files of a store; any thread may call it. A sync of derived files that fails fences the store."""

    def __init__(self, parts: StoreParts, dispatch: ConfirmedDispatch) -> None:
        self._parts, self._dispatch = parts, dispatch
        self._checkpoint, self._views, self._writer = parts.checkpoint, parts.views, parts.writer
        self._frontier = self._stored_synced = parts.writer.commit_log.committed_offset
        self._stored_ms, self._stored_lock = 0, threading.Lock()
        self._ends = DurableEnds()
        if parts.recovery.abort_found:  # otherwise the record of the last orderly stop has them
            self._ends.note((*key, parts.views.queues.end(*key)) for key in parts.views.queues.names())
            self._ends.note((one.topic, one.queue_id, one.bounds(0)[1]) for one in parts.views.batch_queues.all())
            self._write_ends()
        self._lock = threading.Lock()

    @property
    def ahead(self) -> int:
        """Return the bytes of the log between the last `flush` and the confirm offset."""
        return self._dispatch.confirm_offset - self._frontier

    def sync_queues(self, least_bytes: int) -> None:
        """Sync the queues of which so many bytes wait."""
        self._writer.fence.check()
        with self._lock:
            self._guard(lambda: self._views.queues.sync(least_bytes))

    def sync_log(self) -> tuple[int, int, int]:
        """Sync the log; return the confirm offset before that, and the store time (ms) and place of the record there.

        Raises:
            FlushDiskTimeoutError: another thread's sync takes longer than syncFlushTimeout; nothing counts as durable.
        """
        with self._dispatch.lock:
            dispatched = self._dispatched()
        self._writer.flush.make_durable(
            self._writer.commit_log.committed_offset, self._parts.config.sync_flush_timeout / 1000
        )
        self._checkpoint.physic_msg_timestamp = max(dispatched[1], self._checkpoint.physic_msg_timestamp)
        return dispatched

    def store_synced(self, now_ms: int) -> None:
        """Store durably how far the log is synced, if that has changed and was not stored just before `now_ms`."""
        with self._stored_lock:
            end = self._writer.commit_log.flushed_offset
            if end == self._stored_synced or 0 <= now_ms - self._stored_ms < _SYNCED_INTERVAL_MS:
                return
            self._writer.fence.check()
            self._guard(lambda: self._dispatch.confirm_file.log_synced(end))
            self._stored_synced, self._stored_ms = end, now_ms

    def flush(self) -> None:
        """Make log, queues, index and checkpoint durable, in this order; a recovery would start after them."""
        commit_log, dispatch, checkpoint = self._writer.commit_log, self._dispatch, self._checkpoint
        self._writer.fence.check()  # another sync cannot repair what a failed one left
        with self._lock:
            self._ends.note(self._parts.offsets.known())  # before the sync: all of them will be durable
            commit_log.commit()
            target, timestamp, phy_offset = self.sync_log()
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

    @contextmanager
    def forgetting(self, topic: str) -> Iterator[None]:
        """Hold back flushes while a topic is deleted: none may record the ends of its queues, which would be missed."""
        with self._lock:
            self._ends.without_topic(topic)
            self._write_ends()
            yield

    def _dispatched(self) -> tuple[int, int, int]:
        """Return the end of the dispatched log, and the store time (ms) and physical offset of its last record."""
        dispatch = self._dispatch
        return dispatch.confirm_offset, dispatch.dispatched_timestamp, dispatch.dispatched_phy_offset

    def _note_queues(self, phy_offset: int, end: int) -> None:
        """Set the checkpoint's offset of durable queues to the record at `phy_offset`, the last before `end`."""
        if self._parts.config.tag_entries:
            self._checkpoint.logics_physical_offset = logics_physical_offset(phy_offset, end)

    def _sync_derived(self) -> None:
        self._views.batch_queues.sync()
        self._views.queues.sync()
        self._views.queues.sync_directories()
        with self._dispatch.lock:  # the newest index file may just be replaced
            self._views.index.sync()

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
