"""The directories that the log's files are spread over: RocketMQ's MultiPathMappedFileQueue.

New files go to the directories in turn, by their number among the files, except for directories that are read-only or
full (if every one is full, except for the read-only ones).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_NO_STAGING: Final[Mapping[Path, Path]] = {}
_CHOICES: Final = threading.Lock()
"""Held for a choice: the thread that appends and the one that allocates ahead make them at once."""


class LogDirectories:
    """The `writable` and the read-only directories; `staging` maps each to the one for files in preparation."""

    __slots__ = ("_chosen", "_names", "_of_log", "_staging", "_writable", "full")  # every queue of a store has its own

    def __init__(
        self,
        writable: Sequence[Path],
        read_only: Sequence[Path] = (),
        staging: Mapping[Path, Path] | None = None,
        *,
        of_log: bool = True,
    ) -> None:
        """Take the directories; one that is not `of_log` counts as empty if its path is a file."""
        assert writable
        self._of_log = of_log
        names = sorted({str(one) for one in writable})
        self._writable = len(names)
        self._names = tuple(dict.fromkeys((*names, *(str(one) for one in read_only))))
        self._staging = staging or _NO_STAGING
        self._chosen: dict[int, Path] | None = None
        self.full: Collection[Path] = ()
        """Directories on disks that are fuller than `diskSpaceCleanForciblyRatio`."""

    @property
    def writable(self) -> tuple[Path, ...]:
        """The directories that get new files."""
        return self.all[: self._writable]

    @property
    def all(self) -> tuple[Path, ...]:
        """All directories, the writable ones first."""
        return tuple(Path(one) for one in self._names)

    @property
    def first(self) -> Path:
        """One of the directories, as the name of the log."""
        return self.writable[0]

    def entries(self) -> dict[int, os.DirEntry[str]]:
        """Return the files by offset; a missing directory has none.

        Raises StoreVersionError if two files have the same name.
        """
        found: dict[int, os.DirEntry[str]] = {}
        for directory in self._names:
            try:
                with os.scandir(directory) as entries:
                    for entry in entries:
                        if not (entry.name.isdigit() and len(entry.name) >= 20):
                            continue
                        other = found.setdefault(int(entry.name), entry)
                        if other is not entry:
                            raise StoreVersionError(
                                entry.path, f"is in {os.path.dirname(other.path)} too; put one of them elsewhere"
                            )
            except FileNotFoundError:
                continue
            except OSError as error:
                if isinstance(error, NotADirectoryError) and not self._of_log:
                    continue
                raise access_error(directory, error) from error
        return found

    def home_of(self, file_from_offset: int, file_size: int) -> Path:
        """Return the directory for a new file; the result stays the same until `made` is called. Any thread."""
        with _CHOICES:
            chosen = {} if self._chosen is None else self._chosen
            home = chosen.get(file_from_offset)
            if home is None:
                open_ones = [one for one in self.writable if one not in self.full] or self.writable
                home = chosen[file_from_offset] = open_ones[file_from_offset // file_size % len(open_ones)]
                self._chosen = chosen
            return home

    def reject(self, file_from_offset: int) -> bool:
        """Withdraw the chosen directory, which has no space; return True if there is another one. Any thread."""
        with _CHOICES:
            rejected = None if self._chosen is None else self._chosen.pop(file_from_offset, None)
            if rejected is not None:
                self.full = {*self.full, rejected}
            return any(one not in self.full for one in self.writable)

    def made(self, file_from_offset: int) -> None:
        """Forget the choice: the file exists now. Any thread."""
        with _CHOICES:
            if self._chosen is not None:
                self._chosen.pop(file_from_offset, None)
                self._chosen = self._chosen or None

    def staging_of(self, directory: Path) -> Path:
        """Return the directory in which files for `directory` are prepared: on the same disk."""
        return self._staging[directory]

    @property
    def stagings(self) -> tuple[tuple[Path, Path], ...]:
        """(directory, its staging directory) of all that get new files."""
        return tuple((one, self._staging[one]) for one in self.writable if one in self._staging)
