"""Where the CommitLog of a rebuild is: on this machine (or a shared disk), or in object storage.

Both go with the tasks to wherever these run, and give files that look alike.
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
    """A CommitLog to be read."""

    @property
    def file_size(self) -> int:
        """Bytes of each file."""
        ...

    @property
    def samples(self) -> int:
        """At how many places of a queue file its units are held against their records: as many as is cheap."""
        ...

    def files(self) -> MappedFileQueue:
        """All files of the log, to be closed."""
        ...

    def open(self, path: str, file_from_offset: int) -> MappedFile:
        """One file of it, to be closed."""
        ...

    def passed(self, mapped: MappedFile, position: int) -> None:
        """Nobody looks at anything of the file in front of `position` any more."""
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
        """The system takes pages back itself."""


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """Files of `file_size` bytes that begin at `offsets`, in a directory of object storage."""

    directory: RemoteDirectory
    offsets: tuple[int, ...]
    file_size: int
    samples: int = 2

    @classmethod
    def at(cls, directory: RemoteDirectory) -> RemoteLog:
        """What is there: the log of a store, or a log; NotAStoreError without one."""
        for place in (directory.below("commitlog"), directory):
            found = [(int(name), size) for name, size in place.files() if _is_log_name(name)]
            if found:
                sizes = {size for _, size in found if size}
                if len(sizes) > 1:
                    raise StoreVersionError(place.name, f"has log files of {sorted(sizes)} bytes; put them right")
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
    """The log by place; the files are to be closed."""
    files = log.files()
    return files, CommitLogView(files)


def _is_log_name(name: str) -> bool:
    return name.isdigit() and len(name) >= _NAME_DIGITS
