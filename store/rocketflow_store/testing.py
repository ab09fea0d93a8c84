"""The tests' door: access to parts of an open store beyond its public methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketflow_store.model.errors import StoreFencedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.append.put_lock import PutLock
    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.files.mapped.locked_files import LockedFiles
    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles
    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.log.group_flush import GroupFlush
    from rocketflow_store.settings.store_config import StoreConfig


class Probe:
    """Access to the internals of an open store, and single rounds of its service threads."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    # -- the log

    @property
    def commit_log(self) -> CommitLog:
        """The CommitLog, for tests that replace one of its methods."""
        return self._store._parts.writer.commit_log

    @property
    def group_flush(self) -> GroupFlush:
        """The group flush of the log, for tests that replace one of its methods."""
        return self._store._parts.writer.flush

    @property
    def wrote_offset(self) -> int:
        """Physical offset after the last record."""
        return self._store._parts.writer.commit_log.wrote_offset

    @property
    def flushed_offset(self) -> int:
        """Physical offset below which the log is durable."""
        return self._store._parts.writer.commit_log.flushed_offset

    @property
    def log_files(self) -> list[MappedFile]:
        """The files of the log, oldest first."""
        return self._store.log_files

    @property
    def log_buffers(self) -> BufferedFiles | None:
        """Buffers of the TransientStorePool, or None without a pool."""
        return self._store._parts.writer.buffered

    def fence(self, error: StoreFencedError) -> None:
        """Fence the store with `error`."""
        self._store._parts.writer.fence.close(error)

    def release_directory(self) -> None:
        """Release the lock of the directory, like the exit of a killed process."""
        self._store._life._lock.release()

    # -- puts

    @property
    def put_lock(self) -> PutLock:
        """The lock that a put holds while it appends."""
        return self._store._writing.puts.lock

    def refuse_puts(self) -> None:
        """Refuse every later put, as `close` does."""
        self._store._writing.puts._close()

    @property
    def waiting_puts(self) -> tuple[int, int]:
        """(messages, body bytes) of the waiting asynchronous puts."""
        waiting = self._store._writing.later._waiting
        return waiting.count, waiting.bytes

    @property
    def has_put_to_sync(self) -> bool:
        """True if all asynchronous puts are appended and at least one waits for its sync."""
        later = self._store._writing.later
        return bool(later._to_sync) and not later._waiting.has_untaken

    # -- flush threads

    @property
    def puts_wake_flushing(self) -> bool:
        """True if puts without a waiting caller wake the flush threads."""
        return self._store._life._flushing.wakes

    def silence_puts(self) -> None:
        """Stop waking the flush threads after puts."""
        self._store._writing.puts._acknowledgement.on_append = None

    def flush_log(self) -> None:
        """Run one round of the thread that flushes the log."""
        self._store._life._flushing.log_step()

    def flush_queues(self) -> None:
        """Run one round of the thread that flushes queues, index and checkpoint."""
        self._store._life._flushing.queues_step()

    def commit_buffers(self) -> None:
        """Run one round of the thread that commits the buffers of the TransientStorePool."""
        self._store._life._flushing.commit_step()

    def stop_flushing(self) -> None:
        """End the flush threads."""
        self._store._life._flushing.stop()

    # -- preallocated files

    def wait_for_preallocation(self) -> None:
        """Wait until every requested log file is allocated."""
        self._store._parts.allocator.wait_until_idle()

    def allocate_on_demand_only(self) -> None:
        """Disable preallocation of log files."""
        self._store._parts.allocator.want = lambda *_: None  # type: ignore[method-assign]

    def set_preallocation_wait(self, seconds: float) -> None:
        """Set how long an append waits for a file that is being allocated."""
        self._store._parts.allocator._wait_s = seconds

    @property
    def preallocated_offsets(self) -> list[int]:
        """Start offsets of the preallocated files that are not used yet."""
        return self._store._parts.allocator.ready

    @property
    def allocations(self) -> tuple[int, int]:
        """(log files that were preallocated, log files that were allocated on demand)."""
        return self._store._parts.allocator.preallocated, self._store._parts.allocator.allocated_on_demand

    @property
    def locked_files(self) -> LockedFiles:
        """The log files whose pages are locked (`warmMapedFileEnable`)."""
        return self._store._parts.allocator.locked

    # -- retention

    def clean(self, *arguments: Any, **options: Any) -> Any:
        """Run one round of retention and return its result."""
        return self._store._rounds.service.step(*arguments, **options)

    @property
    def clean_lock(self) -> threading.Lock:
        """The lock that retention holds during a round."""
        return self._store._rounds.lock

    def look_at_disk(self) -> None:
        """Check the disk usage again."""
        self._store._rounds.service.look_at_disk()

    @property
    def disk_full(self) -> bool:
        """True if puts are refused because the disk is full."""
        return self._store._rounds.service.disk_full

    def use_disk_figures(self, used_percent: Callable[[Path], int]) -> None:
        """Replace the function that returns the used percentage of a directory's disk."""
        self._store._rounds.service.disk_used_percent = used_percent

    def set_retention(self, config: StoreConfig) -> None:
        """Replace the settings of retention."""
        self._store._rounds.service._config = config
