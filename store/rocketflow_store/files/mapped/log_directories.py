"""The directories that the log's files are spread over: RocketMQ's MultiPathMappedFileQueue.

A new file goes to the directories in turn, by its number among the files, over those that are neither read-only nor
full (over all that are not read-only, where every one is full).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rocketflow_store.files.os_files import access_error
from rocketflow_store.model.errors import StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


class LogDirectories:
    """`writable` directories, and those in which files are only read; `staging` is where files for one are made."""

    def __init__(
        self,
        writable: Sequence[Path],
        read_only: Sequence[Path] = (),
        staging: Mapping[Path, Path] | None = None,
        *,
        of_log: bool = True,
    ) -> None:
        """Have these directories; one that is not `of_log` has no files where a file is in its place."""
        assert writable
        self._of_log = of_log
        self.writable = tuple(sorted(dict.fromkeys(writable), key=str))
        self.all = tuple(dict.fromkeys((*self.writable, *read_only)))
        self._staging = staging or {}
        self._chosen: dict[int, Path] = {}
        self.full: Collection[Path] = ()
        """Directories on disks that are used beyond `diskSpaceCleanForciblyRatio`."""

    @property
    def first(self) -> Path:
        """One of them, to name the log by."""
        return self.writable[0]

    def entries(self) -> dict[int, os.DirEntry[str]]:
        """The files by offset; StoreVersionError where two have the same name. What is missing has none."""
        found: dict[int, os.DirEntry[str]] = {}
        for directory in self.all:
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
        """The directory for a new file; the same answer until `made` is told."""
        chosen = self._chosen.get(file_from_offset)
        if chosen is None:
            open_ones = [one for one in self.writable if one not in self.full] or self.writable
            chosen = self._chosen[file_from_offset] = open_ones[file_from_offset // file_size % len(open_ones)]
        return chosen

    def reject(self, file_from_offset: int) -> bool:
        """The directory chosen for a file has no room; whether there is another one to choose."""
        self.full = {*self.full, self._chosen.pop(file_from_offset)}
        return any(one not in self.full for one in self.writable)

    def made(self, file_from_offset: int) -> None:
        """The file is there now."""
        self._chosen.pop(file_from_offset, None)

    def staging_of(self, directory: Path) -> Path:
        """Where files for `directory` are made: on the same disk."""
        return self._staging[directory]

    @property
    def stagings(self) -> tuple[tuple[Path, Path], ...]:
        """(directory, where its files are made) of all that get new files."""
        return tuple((one, self._staging[one]) for one in self.writable if one in self._staging)
