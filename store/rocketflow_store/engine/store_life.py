"""The life of an open store: its lock, its threads, and the sync at its end."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.metadata.layout.other_engines import refuse_rocksdb_data
from rocketflow_store.metadata.layout.store_paths import StoreLock, check_writable_directory
from rocketflow_store.model.errors import (
    StoreAccessError,
    StoreClosedError,
    StoreError,
    StoreLockedError,
    StoreMovedError,
)
from rocketflow_store.recovery.take_stop_record import StoppedFiles, leave_stop_record

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.engine.clean_rounds import CleanRounds
    from rocketflow_store.engine.flush_services import FlushServices
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.engine.place_watch import PlaceWatch
    from rocketflow_store.engine.writing import Writing
    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.tag_entries import TagEntries
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

_OPEN: Final = weakref.WeakSet["StoreLife"]()


def _leave_to_parent() -> None:
    """Abandon the open stores in a forked process, which has neither their locks nor their threads."""
    for life in _OPEN:
        life.abandon_after_fork()


os.register_at_fork(after_in_child=_leave_to_parent)


def lock_directory(path: Path, config: StoreConfig, read: ReadFile) -> tuple[StorePaths, StoreLock]:
    """Lock the directory of a store for its one writer; create the directory if it does not exist.

    Raises:
        StoreLockedError: another writer has it, or one of its directories for another store.
    """
    paths = check_writable_directory(path, config, read)
    refuse_rocksdb_data(path)
    if paths.abort.is_dir():
        raise StoreAccessError(paths.abort, "is a directory, but a writer creates a file of this name; move it away")
    is_new = not path.is_dir()
    try:
        if is_new:
            os_files.make_directory(path)
            os_files.sync_directory(path.parent)
    except OSError as error:
        raise os_files.access_error(path, error) from error
    try:
        return paths, StoreLock(paths)
    except StoreLockedError:
        if is_new:
            with suppress(OSError):
                os_files.remove_directory(path)
        raise


def mark_open(paths: StorePaths) -> None:
    """Create the `abort` file: an open that finds it knows that the stop was not orderly."""
    os_files.write_atomically(paths.abort, str(os.getpid()).encode())


class StoreLife:
    """The lock and the threads of one open store, and their end in order."""

    def __init__(
        self,
        lock: StoreLock,
        parts: StoreParts,
        dispatch: ConfirmedDispatch,
        writing: Writing,
        flushing: FlushServices,
        rounds: CleanRounds,
        watch: PlaceWatch,
    ) -> None:
        self._lock, self._parts, self._dispatch = lock, parts, dispatch
        self._writing, self._flushing, self._rounds, self._watch = writing, flushing, rounds, watch
        self._flush_lock = threading.Lock()
        self.closed = self._abandoned = False
        _OPEN.add(self)

    def check_open(self) -> None:
        """Raise StoreClosedError once the store is closed."""
        if self.closed:
            raise StoreClosedError(self._parts.paths.root)

    def abandon_after_fork(self) -> None:
        """Close the store in a forked process, and leave its directory unchanged for the parent."""
        self.closed = self._abandoned = True
        self._writing.puts.abandon_after_fork()

    def flush(self) -> None:
        """Make everything durable: log, queues, index, checkpoint, in this order."""
        with self._flush_lock:
            self.check_open()
            self._flushing.durability.flush()

    def close(self) -> None:
        """Stop in order: sync log, queues, index, checkpoint; then, and only then, remove `abort`."""
        if self._abandoned:
            return
        with self._writing.puts.lock:
            if self.closed:
                return
            self.closed = True
        parts = self._parts
        with ExitStack() as at_last:
            at_last.callback(self._lock.release)
            at_last.callback(parts.close_files)
            with ExitStack() as threads:  # all end, even if the first step fails: the files will be closed
                for one in (parts.allocator, self._rounds, self._flushing, self._watch):  # the last one first
                    threads.callback(one.stop)
                self._writing.close()
            at_last.enter_context(self._rounds.lock)  # wait for a clean-up or flush of another thread
            at_last.enter_context(self._flush_lock)
            clean = False
            try:
                clean = self._make_durable()
            finally:
                self._dispatch.confirm_file.close(remove=clean)
            if clean:
                os_files.remove_file(parts.paths.abort)
                os_files.sync_directory(parts.paths.root)

    def _make_durable(self) -> bool:
        """Sync everything and write the stop record; return False if a failed sync left nothing certain."""
        parts, views = self._parts, self._parts.views
        if parts.writer.fence.error is not None:
            with suppress(StoreError):  # a recovery may still succeed
                parts.writer.commit_log.commit()
                if isinstance(parts.writer.fence.error, StoreMovedError):  # where they are now
                    parts.sync_everything()
            return False
        self._rounds.service.remove_retired()
        self._flushing.durability.flush_last()
        stopped = StoppedFiles(parts.files, views.queues, views.batch_queues, views.index)
        written = parts.recovery.truncated_to, self._dispatch.confirm_file.gives_record_crc
        end = parts.writer.commit_log.committed_offset
        leave_stop_record(parts.paths, parts.config, stopped, end, written, self._tag_entries())
        return True

    def _tag_entries(self) -> TagEntries:
        """Return the range of the log in which the index names the TAGS of every record."""
        parts = self._parts
        if not parts.indexes_tags:
            return parts.tag_entries
        return parts.tag_entries.extended(parts.recovery.truncated_to, parts.writer.commit_log.committed_offset)
