"""Staged files that a commit has read, kept for the tasks of the next batch to write over.

Writing over pages that are in memory costs a small part of what new pages cost. Only files that a commit named are
kept: whoever wrote one closed it before the commit began. At most one batch's files are kept, and `MAX_BYTES` of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MAX_BYTES: Final = 512 << 20
SPARE: Final = "spare"


def take(home: Path, target: Path) -> bool:
    """Give a spare file of the sink whose staging directory is `home` the name `target`; False where none is left.

    Any number of tasks may ask at once. What the file held is still in it.
    """
    for name in _names(home / SPARE):
        try:
            os_files.rename(home / SPARE / name, target)
        except OSError:  # another task was quicker
            continue
        return True
    return False


def keep(home: Path, files: Iterable[Path]) -> None:
    """Make the files of a committed batch the spare ones; those that the batch had no use for go."""
    spare = home / SPARE
    for name in _names(spare):
        os_files.remove_file(spare / name)
    room = MAX_BYTES
    for path in files:
        try:
            room -= path.stat().st_size
            if room >= 0:
                os_files.make_directory(spare)
                os_files.rename(path, spare / path.name)
        except OSError:  # then it goes with its batch
            continue


def _names(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []
