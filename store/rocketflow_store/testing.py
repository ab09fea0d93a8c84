"""The tests' door: what a test may see and do of an open store besides its public methods."""

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
    """Look into an open store, and run one round of what its threads do."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    # -- the log

    @property
    def commit_log(self) -> CommitLog:
        """The CommitLog, for tests that put another function in the place of one of its own."""
        return self._store._parts.writer.commit_log

    @property
    def group_flush(self) -> GroupFlush:
        """The shared sync of the log, likewise."""
        return self._store._parts.writer.flush

    @property
    def wrote_offset(self) -> int:
        """Physical offset after the last record."""
        return self._store._parts.writer.commit_log.wrote_offset

    @property
    def flushed_offset(self) -> int:
        """Everything below is durable."""
        return self._store._parts.writer.commit_log.flushed_offset

    @property
    def log_files(self) -> list[MappedFile]:
        """The files of the log, oldest first."""
        return self._store.log_files

    @property
    def log_buffers(self) -> BufferedFiles | None:
        """What appends go through with a TransientStorePool."""
        return self._store._parts.writer.buffered

    def fence(self, error: StoreFencedError) -> None:
        """Fence the store."""
        self._store._parts.writer.fence.close(error)

    def release_directory(self) -> None:
        """Let the directory's lock go, as a killed process does."""
        self._store._life._lock.release()

    # -- puts

    @property
    def put_lock(self) -> PutLock:
        """The lock that is held by who appends."""
        return self._store._writing.puts.lock

    def refuse_puts(self) -> None:
        """Refuse every later put, as `close` does."""
        self._store._writing.puts._gate.close()

    @property
    def waiting_puts(self) -> tuple[int, int]:
        """Messages of asynchronous puts that wait, and the bytes of their bodies."""
        waiting = self._store._writing.later._waiting
        return waiting.count, waiting.bytes

    @property
    def has_put_to_sync(self) -> bool:
        """Whether all asynchronous puts are appended, and some wait for their sync."""
        later = self._store._writing.later
        return bool(later._to_sync) and not later._waiting.has_untaken

    # -- flush threads

    @property
    def puts_wake_flushing(self) -> bool:
        """Whether the flush threads are told of puts that nobody waits for."""
        return self._store._life._flushing.wakes

    def silence_puts(self) -> None:
        """Tell the flush threads of no put any more."""
        self._store._writing.puts._acknowledgement.on_append = None

    def flush_log(self) -> None:
        """Run one round of the thread that flushes the log."""
        self._store._life._flushing.log_step()

    def flush_queues(self) -> None:
        """Run one round of the thread that flushes queues, index and checkpoint."""
        self._store._life._flushing.queues_step()

    def commit_buffers(self) -> None:
        """Run one round of the thread that commits a store pool's buffers."""
        self._store._life._flushing.commit_step()

    def stop_flushing(self) -> None:
        """End the flush threads."""
        self._store._life._flushing.stop()

    # -- files that are made before they are needed

    def wait_for_preallocation(self) -> None:
        """Wait until every log file that was asked for is made."""
        self._store._parts.allocator.wait_until_idle()

    def allocate_on_demand_only(self) -> None:
        """Make no log file before it is needed."""
        self._store._parts.allocator.want = lambda *_: None  # type: ignore[method-assign]

    def set_preallocation_wait(self, seconds: float) -> None:
        """Let appends wait so long for a file that is being made."""
        self._store._parts.allocator._wait_s = seconds

    @property
    def preallocated_offsets(self) -> list[int]:
        """Where the files begin that are made and not used yet."""
        return self._store._parts.allocator.ready

    @property
    def allocations(self) -> tuple[int, int]:
        """How many log files were made before they were needed, and when they were."""
        return self._store._parts.allocator.made_ahead, self._store._parts.allocator.made_late

    @property
    def locked_files(self) -> LockedFiles:
        """The log files whose pages are locked (`warmMapedFileEnable`)."""
        return self._store._parts.allocator.locked

    # -- retention

    def clean(self, *arguments: Any, **options: Any) -> Any:
        """Run one round of retention; return what was deleted."""
        return self._store._rounds.service.step(*arguments, **options)

    @property
    def clean_lock(self) -> threading.Lock:
        """The lock that is held while retention works."""
        return self._store._rounds.lock

    def look_at_disk(self) -> None:
        """Ask again how much of each disk is used."""
        self._store._rounds.service.look_at_disk()

    @property
    def disk_full(self) -> bool:
        """Whether puts are refused because of the disk."""
        return self._store._rounds.service.disk_full

    def use_disk_figures(self, used_percent: Callable[[Path], int]) -> None:
        """Take what this function says of a directory for how much of its disk is used."""
        self._store._rounds.service.disk_used_percent = used_percent

    def set_retention(self, config: StoreConfig) -> None:
        """Let retention go by other settings."""
        self._store._rounds.service._config = config
