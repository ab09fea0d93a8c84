"""The directories that open writers of this process hold at their paths, and those that they have lost.

A writer that finds its files at another place must not start a second store at the old one: no held directory is
created again while its writer is open, and once the writer has noticed that its files moved, nothing is created,
replaced or deleted at its paths until it is closed.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreMovedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HELD: Final[dict[str, tuple[int, tuple[int, int]]]] = {}
"""The number of writers that hold a directory, and its device and inode, by its path.

Empty if no store is open for writing, which callers test first.
"""
LOST: Final[dict[str, str]] = {}
"""Why nothing may be changed at and below a path; usually empty, which callers test first."""


def hold(paths: Iterable[tuple[Path, tuple[int, int]]]) -> None:
    """Count a writer that has directories, each with its device and inode."""
    for path, identity in paths:
        count, _ = HELD.get(str(path), (0, identity))
        HELD[str(path)] = count + 1, identity


def let_go(paths: Iterable[Path]) -> None:
    """Take back a `hold` of each of `paths`."""
    for key in map(str, paths):
        count, identity = HELD.pop(key)
        if count > 1:
            HELD[key] = count - 1, identity


def lose(paths: Iterable[Path], why: str) -> None:
    """Refuse every change at and below `paths` from now on."""
    LOST.update((str(path), why) for path in paths)


def end_loss(paths: Iterable[Path]) -> None:
    """Allow changes at `paths` again: their writer is closed."""
    for path in paths:
        LOST.pop(str(path), None)


def forget() -> None:
    """Forget all directories, in a forked process: they are its parent's."""
    HELD.clear()
    LOST.clear()


def refuse_lost(path: Path) -> None:
    """Raise StoreMovedError if `path` is at or below a directory that a writer has lost."""
    for one in (path, *path.parents):
        why = LOST.get(str(one))
        if why is not None:
            raise StoreMovedError(one, why)


def refuse_second(path: Path) -> None:
    """Raise StoreMovedError instead of creating what is at or below a held directory that is no longer at its path."""
    if LOST:
        refuse_lost(path)
    for one in (path, *path.parents):
        held = HELD.get(str(one))
        if held is not None:
            try:
                named = os.stat(one)
                is_there = (named.st_dev, named.st_ino) == held[1]
            except OSError as error:
                is_there = error.errno not in (errno.ENOENT, errno.ENOTDIR)
            if not is_there:
                raise StoreMovedError(one, f"{one} was renamed, replaced or deleted: put it back")
            return
