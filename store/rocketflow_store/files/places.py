"""The directories that open writers of this process hold at their paths, and those that they have lost.

A writer that finds its files at another place must not start a second store at the old one: no held directory is
created again while its writer is open, and once the writer has noticed that its files moved, nothing is created,
replaced or deleted at its paths until it is closed.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreMovedError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_HELD: Final = Counter[str]()
_LOST: Final[dict[str, str]] = {}


def hold(path: Path) -> None:
    """Count a writer that has the directory at `path`."""
    _HELD[str(path)] += 1


def let_go(path: Path) -> None:
    """Take back one `hold`."""
    _HELD[str(path)] -= 1
    if _HELD[str(path)] <= 0:
        del _HELD[str(path)]


def lose(paths: Iterable[Path], why: str) -> None:
    """Refuse every change at and below `paths` from now on."""
    _LOST.update((str(path), why) for path in paths)


def end_loss(paths: Iterable[Path]) -> None:
    """Allow changes at `paths` again: their writer is closed."""
    for path in paths:
        _LOST.pop(str(path), None)


def forget() -> None:
    """Forget all directories, in a forked process: they are its parent's."""
    _HELD.clear()
    _LOST.clear()


def refuse_lost(path: Path) -> None:
    """Raise StoreMovedError if `path` is at or below a directory that a writer has lost."""
    if not _LOST:
        return
    for one in (path, *path.parents):
        why = _LOST.get(str(one))
        if why is not None:
            raise StoreMovedError(one, why)


def refuse_second(path: Path) -> None:
    """Raise StoreMovedError instead of creating a held directory that is no longer at its path."""
    refuse_lost(path)
    if _HELD and str(path) in _HELD and not os.path.isdir(path):
        raise StoreMovedError(path, f"{path} was renamed or deleted: put it back")
