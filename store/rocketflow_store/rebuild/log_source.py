"""Sources of the CommitLog of a rebuild: this machine (or a shared disk), or object storage.

Tasks carry their source with them; the files that it opens have one interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rocketflow_store.files.mapped.mapped_file import MappedFile
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.files.mapped.remote_log import RemoteLogFile, RemoteLogFiles
from rocketflow_store.files.remote import RemoteDirectory
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.model.errors import NotAStoreError, StoreVersionError

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.log_directories import LogDirectories

_NAME_DIGITS = 20


class LogSource(Protocol):
    """A CommitLog to read."""

    @property
    def file_size(self) -> int:
        """Bytes of each file."""
        ...

    @property
    def samples(self) -> int:
        """Number of places of a queue file at which units are checked against their records: as many as are cheap."""
        ...

    def files(self) -> MappedFileQueue:
        """Open all files of the log; the caller closes them."""
        ...

    def open(self, path: str, file_from_offset: int) -> MappedFile:
        """Open one file of the log; the caller closes it."""
        ...

    def passed(self, mapped: MappedFile, position: int) -> None:
        """Release what is before `position` of the file: it is not read again."""
        ...


@dataclass(frozen=True, slots=True)
class LocalLog:
    """Files of `file_size` bytes in directories that every task sees."""

    directories: LogDirectories
    file_size: int
    samples: int = 16

    def files(self) -> MappedFileQueue:
        files = MappedFileQueue(self.directories, self.file_size, write=False)
        files.refuse_other_sizes()
        return files

    def open(self, path: str, file_from_offset: int) -> MappedFile:
        return MappedFile(Path(path), file_from_offset, write=False)

    def passed(self, mapped: MappedFile, position: int) -> None:
        """Do nothing: the system reclaims pages itself."""


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """Files of `file_size` bytes that begin at `offsets`, in a directory of object storage."""

    directory: RemoteDirectory
    offsets: tuple[int, ...]
    file_size: int
    samples: int = 2

    @classmethod
    def at(cls, directory: RemoteDirectory) -> RemoteLog:
        """Find the log in `directory`, that of a store or a CommitLog; raise NotAStoreError if there is none."""
        for place in (directory.below("commitlog"), directory):
            found = [(int(name), size) for name, size in place.files() if _is_log_name(name)]
            if found:
                sizes = {size for _, size in found if size}
                if len(sizes) > 1:
                    raise StoreVersionError(place.name, f"has log files of {sorted(sizes)} bytes; restore the others")
                return cls(place, tuple(offset for offset, size in found if size), sizes.pop() if sizes else 0)
        raise NotAStoreError(directory.name, "holds no log; give the directory of a store, or of its CommitLog")

    def files(self) -> MappedFileQueue:
        return RemoteLogFiles(self.directory, self.offsets, self.file_size)

    def open(self, path: str, file_from_offset: int) -> MappedFile:
        return RemoteLogFile(self.directory, file_from_offset, self.file_size)

    def passed(self, mapped: MappedFile, position: int) -> None:
        assert isinstance(mapped, RemoteLogFile)
        mapped.forget(position)


def log_view(log: LogSource) -> tuple[MappedFileQueue, CommitLogView]:
    """Open the log and return its files, which the caller closes, and a view by physical offset."""
    files = log.files()
    return files, CommitLogView(files)


def _is_log_name(name: str) -> bool:
    return name.isdigit() and len(name) >= _NAME_DIGITS
