"""Staged files that a commit has read, kept for the tasks of later batches to overwrite.

Overwriting pages that are in memory costs a fraction of allocating new ones. Only files that a commit named are kept:
their writer closed them before the commit began. At most `MAX_BYTES` of them are kept, the newest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_BYTES: Final = 512 << 20


def pool_directory(staging: Path) -> Path:
    """Return the directory of the pooled files for parts staged under `staging`: on the same file system."""
    return staging.with_name("spare")


def take(staging: Path, target: Path) -> bool:
    """Rename a pooled file to `target`, with its old content; return False if there is none.

    Any number of tasks may call this at once.
    """
    for _, _, path in _newest_first(pool_directory(staging)):
        try:
            os_files.rename(path, target)
        except OSError:  # another task was faster
            continue
        return True
    return False


def keep(staging: Path, files: Iterable[Path]) -> None:
    """Move the files of a committed batch to the pool, and delete those above its limit."""
    pool = pool_directory(staging)
    for path in files:
        try:
            os_files.make_directory(pool)
            os_files.rename(path, pool / path.name)
        except OSError:  # then it is deleted with its batch
            continue
    _drop(pool, MAX_BYTES, 0.0)


def drop_stale(staging: Path, before_s: float) -> None:
    """Delete the files that were not written since `before_s` (seconds since 1970)."""
    _drop(pool_directory(staging), MAX_BYTES, before_s)


def _drop(pool: Path, room: int, before_s: float) -> None:
    for modified_s, size, path in _newest_first(pool):
        room -= size
        if room < 0 or modified_s < before_s:
            os_files.remove_file(path)


def _newest_first(pool: Path) -> list[tuple[float, int, Path]]:
    """Return (time of the last write, size, path) of every pooled file."""
    found = []
    try:
        with os.scandir(pool) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except OSError:  # taken meanwhile
                    continue
                found.append((status.st_mtime, status.st_size, pool / entry.name))
    except OSError:
        return []
    return sorted(found, reverse=True)
