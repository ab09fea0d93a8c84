"""The files of one or several directories as one range of offsets."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.log_directories import LogDirectories
from rocketflow_store.files.mapped.mapped_file import MappedFile, file_name
from rocketflow_store.model.errors import (
    StoreAccessError,
    StoreError,
    StoreFencedError,
    StoreFullError,
    StoreVersionError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService


_NO_NAMES: Final = threading.Lock()
"""The lock of all queues without an allocator, which have no names to sync."""


class MappedFileQueue:
    """Adjacent files of `file_size` bytes, in the order of their offsets.

    A read-only queue skips a file in a transient state of a live writer (an empty file), and opens the new file if one
    was replaced; a writing queue refuses a directory whose files do not fit together. New files come from `allocator`,
    with all their blocks; without one they are sparse.
    """

    __slots__ = (
        "_allocator",
        "_files",
        "_lock",
        "_names",
        "_names_failure",
        "_names_lock",
        "_synced_names",
        "_with_window",
        "_write",
        "directories",
        "file_size",
        "replacements",
    )

    def __init__(
        self,
        directory: Path | LogDirectories,
        file_size: int,
        *,
        write: bool,
        allocator: AllocateMappedFileService | None = None,
    ) -> None:
        self.directories = (
            directory if isinstance(directory, LogDirectories) else LogDirectories((directory,), of_log=False)
        )
        self.file_size = file_size
        self._write, self._allocator = write, allocator
        self._names, self._synced_names = 0, 0
        self._names_failure: StoreFencedError | None = None
        self._names_lock = _NO_NAMES if allocator is None else threading.Lock()
        self._files: dict[int, MappedFile] = {}  # by offset, rising; never changed, only replaced
        self._with_window: MappedFile | None = None
        self.replacements = 0
        """Rises when files are replaced: by a restore, or by a recovery that truncated the end."""
        self._lock = threading.Lock()
        self._look()

    def refresh(self) -> None:
        """Look for new and removed files. A writing queue creates and removes them itself."""
        if not self._write:
            self._look()

    def _look(self) -> None:
        with self._lock:
            found = self.directories.entries()  # under the lock: of two threads, the later one has the later result
            known = self._files
            if known and _is_end_missing(next(reversed(known)), found):
                self.replacements += 1
            self._files = {offset: mapped for offset, mapped in known.items() if offset in found}
            for offset in known.keys() - found.keys():
                known[offset].close()
            for offset in sorted(found):
                self._take(offset, found[offset])

    def _take(self, offset: int, entry: os.DirEntry[str]) -> None:
        """Open the file that the directory names now."""
        known = self._files.get(offset)
        if known is not None:
            if not known.is_replaced(entry.inode()):
                return
            self._files = {start: mapped for start, mapped in self._files.items() if start != offset}
            known.close()
            self.replacements += 1
        if not self._usable(entry.path):
            return
        try:
            self._add(MappedFile(entry.path, offset, write=self._write))
        except StoreAccessError:
            if os.path.exists(entry.path):
                raise

    def _add(self, mapped: MappedFile) -> None:
        known, offset = self._files, mapped.file_from_offset
        if known and offset < next(reversed(known)):
            self._files = dict(sorted({**known, offset: mapped}.items()))
        else:
            self._files = {**known, offset: mapped}

    def _usable(self, path: str) -> bool:
        try:
            size = os.stat(path).st_size
        except FileNotFoundError:
            return False
        if size == self.file_size:
            return True
        if not self._write or size == 0:
            return False
        what = "is a directory" if os.path.isdir(path) else f"has {size} bytes"
        raise StoreVersionError(
            path,
            f"{what}, the other files of this store have {self.file_size} bytes; restore it, or check it with "
            "`rocketflow store verify` and repair it with `--repair`",
        )

    def refuse_other_sizes(self) -> None:
        """Raise StoreVersionError if there are files, but readers would skip all of them for their size."""
        if self._files:
            return
        for _, entry in sorted(self.directories.entries().items()):
            size = entry.stat().st_size
            if size != self.file_size and entry.is_file() and size:
                raise StoreVersionError(
                    Path(entry.path),
                    f"has {size} bytes, and store.meta or the settings say that CommitLog files have {self.file_size}: "
                    "correct the wrong one; `rocketflow store verify` checks both",
                )

    @property
    def directory(self) -> Path:
        """The directory, or the first of several as the name of all."""
        return self.directories.first

    @property
    def files(self) -> list[MappedFile]:
        """The files, oldest first."""
        return list(self._files.values())

    def __len__(self) -> int:
        return len(self._files)

    @property
    def first(self) -> MappedFile | None:
        """The oldest file, except for those that are about to be deleted."""
        for mapped in self._files.values():
            if not mapped.retired:
                return mapped
        return None

    @property
    def first_offset(self) -> int:
        """Offset of the oldest existing file, also of one that is about to be deleted; 0 without files."""
        return next(iter(self._files), 0)

    @property
    def last(self) -> MappedFile | None:
        files = self._files
        return files[next(reversed(files))] if files else None

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds `offset`."""
        return self._files.get(offset - offset % self.file_size) if offset >= 0 else None

    def open_window(self, offset: int, size: int) -> Any:
        """Return a window for the kernel on `size` bytes from `offset` on: see `MappedFile.open_window`.

        There is one at a time. None if no file holds `offset`.
        """
        self.close_window()
        mapped = self._with_window = self.find(offset)
        return None if mapped is None else mapped.open_window(offset - mapped.file_from_offset, size)

    def close_window(self) -> None:
        """Take the window from the kernel."""
        if self._with_window is not None:
            self._with_window.close_window()

    def create(self, file_from_offset: int) -> MappedFile:
        """Create a file that begins at `file_from_offset`."""
        assert file_from_offset % self.file_size == 0
        try:
            while True:
                try:
                    home = self.directories.home_of(file_from_offset, self.file_size)
                    created = self._create_in(home, file_from_offset)
                    break
                except StoreFullError:
                    if not self.directories.reject(file_from_offset):
                        raise
            self.directories.made(file_from_offset)
            with self._lock:
                self._add(created)
        except BaseException:
            self._remove_unknown(file_from_offset)
            raise
        return created

    def _remove_unknown(self, file_from_offset: int) -> None:
        """Remove a file that has its name but was not registered (a signal came between): it may follow a gap."""
        if self.find(file_from_offset) is None:
            for directory in self.directories.writable:
                path = directory / file_name(file_from_offset)
                if path.exists():
                    with contextlib.suppress(StoreError):
                        os_files.remove_file(path)

    def _create_in(self, directory: Path, file_from_offset: int) -> MappedFile:
        if not directory.is_dir():
            os_files.make_directory(directory)
            os_files.sync_directory(directory.parent)
        path = directory / file_name(file_from_offset)
        if self._allocator is None:
            return MappedFile.create(path, file_from_offset, self.file_size)
        self.sync_names()  # a power loss must not keep this name and lose the one before
        self._allocator.place(file_from_offset, path)
        self._names += 1
        return MappedFile(path, file_from_offset, write=True)

    def allocate_ahead(self, *offsets: int) -> None:
        """Request files that begin at these offsets and will be needed soon."""
        if self._allocator is not None:
            self._allocator.want(offsets)

    def sync_names(self) -> None:
        """Make the names of allocated files durable; return once those given before the call are."""
        if self._synced_names == self._names:
            return
        with self._names_lock:
            names = self._names
            if self._names_failure is not None:
                raise self._names_failure  # the success of a second sync would prove nothing
            if self._synced_names != names:
                try:
                    for directory in self.directories.writable:
                        os_files.sync_directory(directory)
                except StoreFencedError as error:
                    self._names_failure = error
                    raise
                self._synced_names = names

    def drop_from(self, offset: int) -> list[Path]:
        """Delete the files that begin at or after `offset`; return their paths."""
        with self._lock:
            dropped = [mapped for mapped in self._files.values() if mapped.file_from_offset >= offset]
            self._files = {start: mapped for start, mapped in self._files.items() if start < offset}
        for mapped in reversed(dropped):  # a stop in between must not leave a gap
            mapped.destroy()
            os_files.sync_directory(mapped.path.parent)
        return [mapped.path for mapped in dropped]

    def remove_first(self, count: int, now_ms: int, forcibly_after_ms: int) -> list[MappedFile]:
        """Delete the `count` oldest files, up to the first held one; return the deleted ones.

        A held file is retired: a later call deletes it, when it was released or `forcibly_after_ms` passed.
        """
        removed: list[MappedFile] = []
        for mapped in self.files[:count]:
            if not mapped.retire(now_ms, forcibly_after_ms):
                break
            mapped.destroy()  # if that fails the file stays in the queue, and retired
            with self._lock:
                self._files = {start: one for start, one in self._files.items() if one is not mapped}
            removed.append(mapped)
        _sync_parents(removed)
        return removed

    def close(self) -> None:
        with self._lock:
            files, self._files = self._files, {}
            for mapped in files.values():
                mapped.close()


def _is_end_missing(newest: int, found: Collection[int]) -> bool:
    """Return True if the known end was truncated; retention removes the oldest files, possibly all known ones."""
    return newest not in found and (not found or min(found) < newest)


def _sync_parents(files: Iterable[MappedFile]) -> None:
    """Make the deletion of files durable."""
    for directory in {mapped.path.parent for mapped in files}:
        os_files.sync_directory(directory)
