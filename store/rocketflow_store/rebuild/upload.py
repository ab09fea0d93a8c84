"""The upload of new files to a target in object storage.

Object storage has no renames: while the mark `rebuild.unfinished` exists at the target, the files beside it are
incomplete. The next rebuild to this target removes them; a target without the mark is never touched.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import RemoteStoreError, StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rocketflow_store.files.remote import RemoteDirectory
    from rocketflow_store.rebuild.engine import Engine

MARK: Final = "rebuild.unfinished"
_DIRECTORIES: Final = ("consumequeue", "batchconsumequeue", "index")
_FILES_A_TASK: Final = 64


@dataclass(frozen=True, slots=True)
class UploadTask:
    """Local files, and their names below the target."""

    target: RemoteDirectory
    files: tuple[tuple[str, str], ...]


def run_upload(task: UploadTask) -> int:
    """Copy the files of a task; return how many."""
    for path, name in task.files:
        task.target.put_file(name, path)
    return len(task.files)


def check_target(target: RemoteDirectory) -> None:
    """Raise StoreVersionError if the target holds queues or an index; remove what a stopped rebuild left there."""
    if MARK in dict(target.files()):
        remove_unfinished(target)
    for directory in _DIRECTORIES:
        found = target.below(directory).files(recursive=True)
        if found:
            raise StoreVersionError(
                target.name, f"has {len(found)} files in {directory}/; name another target, or remove them"
            )


def upload(engine: Engine, target: RemoteDirectory, files: Sequence[tuple[Path, str]]) -> None:
    """Upload `files` to the target, all of them or none."""
    target.put(MARK, b"queues and index are on their way here\n")
    some = [(str(path), name) for path, name in files]
    tasks = [
        UploadTask(target, tuple(some[start : start + _FILES_A_TASK])) for start in range(0, len(some), _FILES_A_TASK)
    ]
    try:
        engine.run(run_upload, tasks, "write to the target", lambda _: None)
    except BaseException:
        with suppress(RemoteStoreError):
            remove_unfinished(target)
        raise
    target.remove(MARK)


def remove_unfinished(target: RemoteDirectory) -> None:
    """Remove what an incomplete rebuild left at the target, the mark last."""
    for directory in _DIRECTORIES:
        below = target.below(directory)
        for name, _ in below.files(recursive=True):
            below.remove(name)
    target.remove(MARK)
