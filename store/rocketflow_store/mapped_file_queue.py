"""The files of one directory as one range of offsets."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from rocketflow_store.errors import StoreAccessError, StoreVersionError
from rocketflow_store.files import os_files
from rocketflow_store.files.os_files import access_error
from rocketflow_store.mapped_file import MappedFile, file_name

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.allocate_ahead import AllocateMappedFileService


class MappedFileQueue:
    """Adjacent files of `file_size` bytes, in the order of their offsets.

    A read-only queue skips what a live writer may show for a moment (an empty file), and takes the new file where one
    was replaced; a writing one refuses a directory whose files do not fit together. New files come from `allocator`,
    with all their blocks; without one they are sparse.
    """

    def __init__(
        self, directory: Path, file_size: int, *, write: bool, allocator: AllocateMappedFileService | None = None
    ) -> None:
        self.directory, self.file_size = directory, file_size
        self._write, self._allocator = write, allocator
        self._names, self._synced_names = 0, 0
        self._names_lock = threading.Lock()
        self._files: dict[int, MappedFile] = {}
        self._order: list[int] = []
        self.replacements = 0
        """Rises where files are not those of before: after a restore, or a recovery that cut the end."""
        self._lock = threading.Lock()
        self._look()

    def refresh(self) -> None:
        """Look which files the directory has now. A writing queue knows: it makes and removes them itself."""
        if not self._write:
            self._look()

    def _look(self) -> None:
        found: dict[int, os.DirEntry[str]] = {}
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    if entry.name.isdigit() and len(entry.name) >= 20:
                        found[int(entry.name)] = entry
        except FileNotFoundError:
            pass
        except OSError as error:
            raise access_error(self.directory, error) from error
        with self._lock:
            if self._order and self._order[-1] not in found:  # retention takes the oldest, never the newest
                self.replacements += 1
            for offset in self._files.keys() - found.keys():
                self._files.pop(offset).release()
            for offset, entry in found.items():
                self._take(offset, entry)
            self._order = sorted(self._files)

    def _take(self, offset: int, entry: os.DirEntry[str]) -> None:
        """Have the file that the directory names now."""
        known = self._files.get(offset)
        if known is not None:
            if not known.is_replaced(entry.inode()):
                return
            self._files.pop(offset).release()
            self.replacements += 1
        path = self.directory / entry.name
        if not self._usable(path):
            return
        try:
            self._files[offset] = MappedFile(path, offset, write=self._write)
        except StoreAccessError:
            if path.exists():
                raise

    def _usable(self, path: Path) -> bool:
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return False
        if size == self.file_size:
            return True
        if not self._write or size == 0:
            return False
        raise StoreVersionError(path, f"has {size} bytes, the other files of this store have {self.file_size}")

    @property
    def files(self) -> list[MappedFile]:
        """The files, oldest first."""
        return [self._files[offset] for offset in self._order]

    def __len__(self) -> int:
        return len(self._order)

    @property
    def first(self) -> MappedFile | None:
        return self._files[self._order[0]] if self._order else None

    @property
    def last(self) -> MappedFile | None:
        return self._files[self._order[-1]] if self._order else None

    def find(self, offset: int) -> MappedFile | None:
        """The file that holds `offset`."""
        return self._files.get(offset - offset % self.file_size) if offset >= 0 else None

    def create(self, file_from_offset: int) -> MappedFile:
        """A new file that begins at `file_from_offset`."""
        assert file_from_offset % self.file_size == 0
        fresh = not self.directory.is_dir()
        if fresh:
            self.directory.mkdir(parents=True, exist_ok=True)
            os_files.sync_directory(self.directory.parent)
        path = self.directory / file_name(file_from_offset)
        if self._allocator is None:
            created = MappedFile.create(path, file_from_offset, self.file_size)
        else:
            self._allocator.place(file_from_offset, path)
            self._names += 1
            created = MappedFile(path, file_from_offset, write=True)
        with self._lock:
            self._files[file_from_offset] = created
            self._order = sorted(self._files)
        return created

    def allocate_ahead(self, *offsets: int) -> None:
        """Files that begin at these offsets will be needed soon."""
        if self._allocator is not None:
            self._allocator.want(offsets)

    def sync_names(self) -> None:
        """Make the names of allocated files durable; returns once those given before the call are."""
        if self._synced_names == self._names:
            return
        with self._names_lock:
            names = self._names
            if self._synced_names != names:
                os_files.sync_directory(self.directory)
                self._synced_names = names

    def drop_from(self, offset: int) -> list[Path]:
        """Delete the files that begin at or behind `offset`; their paths."""
        dropped = [self._files[start] for start in self._order if start >= offset]
        with self._lock:
            for mapped in dropped:
                self._files.pop(mapped.file_from_offset)
            self._order = sorted(self._files)
        for mapped in dropped:
            mapped.destroy()
        if dropped:
            os_files.sync_directory(self.directory)
        return [mapped.path for mapped in dropped]

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            for mapped in self._files.values():
                mapped.release()
            self._files.clear()
            self._order = []
