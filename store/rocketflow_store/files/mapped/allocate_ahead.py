"""Preallocation of the log's next files: RocketMQ's AllocateMappedFileService.

A file is created in a staging directory (a broker fails on unexpected names in `commitlog/`), gets all its blocks, is
synced, and waits there until the log needs it; only then it gets its name. An orderly stop removes unused files, the
next open removes those that a crash left.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.locked_files import LockedFiles
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.model.errors import FileAllocationTimeoutError, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocketflow_store.files.mapped.log_directories import LogDirectories

_WAIT_S: Final = 5.0
"""The time an append waits for a file that is being allocated, as in RocketMQ's AllocateMappedFileService."""


class AllocateMappedFileService:
    """Allocates files of zeros, of `file_size` bytes, in the staging directories of `directories`.

    `want` requests files that will be needed, `place` gives one its name; both are called by one thread at a time. If a
    file could not be preallocated (the disk is full), `place` tries again and raises the error. With `warm` every page
    is written once, and synced every `warm_sync_bytes` of them if that is not 0; then the file is locked in memory, if
    that is allowed, until the log has moved on to the next.
    """

    def __init__(
        self,
        directories: LogDirectories,
        file_size: int,
        *,
        warm: bool = False,
        warm_sync_bytes: int = 0,
        wait_s: float = _WAIT_S,
    ) -> None:
        self._directories, self._file_size = directories, file_size
        self._warm, self._warm_sync_bytes, self._wait_s = warm, warm_sync_bytes, wait_s
        self.locked = LockedFiles()
        self._changed = threading.Condition()
        self._wanted: list[int] = []
        self._ready: set[int] = set()
        self._making = -1
        self._thread: threading.Thread | None = None
        self._stopping = False
        self.preallocated = 0
        """Files that were ready, or being allocated, when they were needed."""
        self.allocated_on_demand = 0
        """Files that an append had to allocate itself."""

    def want(self, offsets: Iterable[int]) -> None:
        """Request the files that begin at `offsets`; return at once."""
        with self._changed:
            known = {*self._wanted, *self._ready, self._making}
            new = [offset for offset in offsets if offset not in known]
            if self._stopping or not new:
                return
            self._wanted = sorted([*self._wanted, *new])
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="allocate-mapped-file", daemon=True)
                thread.start()
                self._thread = thread  # set once it can be joined
            self._changed.notify_all()

    def place(self, offset: int, path: Path) -> None:
        """Give the file for `offset` its name `path`; the caller syncs the directory.

        Raises StoreFullError, StoreAccessError, or FileAllocationTimeoutError if the allocation takes too long.
        """
        staged = self._staged(offset)
        self._moved_on_to(offset)
        try:
            if self._take(offset):
                try:
                    os_files.rename(staged, path)
                except FileNotFoundError:  # the staging directory was cleaned
                    pass
                else:
                    self.preallocated += 1
                    return
            self._make(offset)
            os_files.rename(staged, path)
        except OSError as error:
            raise os_files.access_error(path, error) from error
        self.allocated_on_demand += 1

    def _moved_on_to(self, offset: int) -> None:
        if self._warm:
            self.locked.moved_on_to(offset)
            with self._changed:
                self._changed.notify_all()

    def _take(self, offset: int) -> bool:
        """Return True if the file is ready, after a running allocation; no new one begins meanwhile."""
        with self._changed:
            if offset in self._wanted:
                self._wanted.remove(offset)
            if self._making == offset and not self._changed.wait_for(lambda: self._making != offset, self._wait_s):
                raise FileAllocationTimeoutError(self._staged(offset), self._wait_s)
            if offset not in self._ready:
                return False
            self._ready.remove(offset)
            return True

    @property
    def ready(self) -> list[int]:
        """Offsets of the files that are ready."""
        with self._changed:
            return sorted(self._ready)

    def wait_until_idle(self, timeout_s: float = 60.0) -> bool:
        """Wait until every requested file is allocated or failed; return False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._wanted and self._making < 0, timeout_s)

    def discard_left_overs(self) -> None:
        """Remove the files that a killed writer left in the staging directories."""
        for directory, staging in self._directories.stagings:
            pattern = re.compile(re.escape(directory.name) + r"-\d{20,}")
            try:
                found = [path for path in staging.iterdir() if pattern.fullmatch(path.name)]
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise os_files.access_error(staging, error) from error
            for path in found:
                os_files.remove_file(path)

    def stop(self) -> None:
        """End the thread and remove the unused files."""
        with self._changed:
            self._stopping = True
            self._wanted = []
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(self._wait_s)
        for offset in self.ready:
            os_files.remove_file(self._staged(offset))
        self._ready = set()
        self.locked.close()

    def _staged(self, offset: int) -> Path:
        directory = self._directories.home_of(offset, self._file_size)
        return self._directories.staging_of(directory) / f"{directory.name}-{file_name(offset)}"

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._stopping and not self._wanted:
                    self._changed.wait(self.locked.due_in_s())
                    self.locked.unlock_due()
                if self._stopping:
                    return
                offset = self._making = self._wanted.pop(0)
            is_ready = False
            try:
                self._make(offset)
                is_ready = True
            except (StoreError, OSError):
                pass  # the append that needs the file tries again, and raises the error
            finally:
                with self._changed:
                    self._making = -1
                    if is_ready:
                        self._ready.add(offset)
                    self._changed.notify_all()

    def _make(self, offset: int) -> None:
        """Create a file of zeros with real blocks, durable except for its name."""
        staged = self._staged(offset)
        try:
            os_files.make_directory(staged.parent)
        except OSError as error:
            raise os_files.access_error(staged.parent, error) from error
        fd = os_files.open_file(staged, write=True, create=True)
        try:
            os_files.preallocate(fd, staged, self._file_size)
            if self._warm:
                os_files.write_zeros(fd, staged, self._file_size, self._warm_sync_bytes, lambda: self._stopping)
            os_files.sync_file(fd, staged)
            if self._warm:
                self.locked.lock(offset, fd, self._file_size)
        except BaseException:
            os_files.remove_file(staged)
            raise
        finally:
            os_files.close_file(fd)
