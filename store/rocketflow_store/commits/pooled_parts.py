"""Staged files that a commit has read, kept for the tasks of later batches to write over.

Writing over pages that are in memory costs a small part of what new pages cost. Only files that a commit named are
kept: whoever wrote one closed it before the commit began. `MAX_BYTES` of them are kept at most, the newest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_BYTES: Final = 512 << 20


def spare_directory(staging: Path) -> Path:
    """Where the spare files of a store are whose parts are staged under `staging`: on the same file system."""
    return staging.with_name("spare")


def take(staging: Path, target: Path) -> bool:
    """Give a spare file the name `target`; False where none is left. What the file held is still in it.

    Any number of tasks may ask at once.
    """
    for _, _, path in _newest_first(spare_directory(staging)):
        try:
            os_files.rename(path, target)
        except OSError:  # another task was quicker
            continue
        return True
    return False


def keep(staging: Path, files: Iterable[Path]) -> None:
    """Make the files of a committed batch spare ones; those that are too many go."""
    spare = spare_directory(staging)
    for path in files:
        try:
            os_files.make_directory(spare)
            os_files.rename(path, spare / path.name)
        except OSError:  # then it goes with its batch
            continue
    _drop(spare, MAX_BYTES, 0.0)


def drop_stale(staging: Path, before_s: float) -> None:
    """Delete the files that nobody wrote to since `before_s` (seconds since 1970)."""
    _drop(spare_directory(staging), MAX_BYTES, before_s)


def _drop(spare: Path, room: int, before_s: float) -> None:
    for modified_s, size, path in _newest_first(spare):
        room -= size
        if room < 0 or modified_s < before_s:
            os_files.remove_file(path)


def _newest_first(spare: Path) -> list[tuple[float, int, Path]]:
    """(time of the last write, size, path) of every spare file."""
    found = []
    try:
        with os.scandir(spare) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError:  # taken meanwhile
                    continue
                found.append((status.st_mtime, status.st_size, spare / entry.name))
    except OSError:
        return []
    return sorted(found, reverse=True)
