"""Files that were made, on their way to a target in object storage.

Nothing there is renamed: what stands at the target beside the mark `rebuild.unfinished` is not whole. The next rebuild
to this target removes it; one without the mark is never touched.
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
_ROOMS: Final = ("consumequeue", "batchconsumequeue", "index")
_FILES_A_TASK: Final = 64


@dataclass(frozen=True, slots=True)
class UploadTask:
    """Local files, and what they are called below the target."""

    target: RemoteDirectory
    files: tuple[tuple[str, str], ...]


def run_upload(task: UploadTask) -> int:
    """Copy the files of a task; how many."""
    for path, name in task.files:
        task.target.put_file(name, path)
    return len(task.files)


def check_target(target: RemoteDirectory) -> None:
    """StoreVersionError where the target holds queues or an index; what a stopped rebuild left there goes."""
    if MARK in dict(target.files()):
        remove_unfinished(target)
    for room in _ROOMS:
        found = target.below(room).files(recursive=True)
        if found:
            raise StoreVersionError(
                target.name, f"has {len(found)} files in {room}/: name another target, or remove them"
            )


def upload(engine: Engine, target: RemoteDirectory, files: Sequence[tuple[Path, str]]) -> None:
    """Leave `files` at the target, all of them or none."""
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
    """Remove what a rebuild that did not come to its end left at the target, the mark last."""
    for room in _ROOMS:
        below = target.below(room)
        for name, _ in below.files(recursive=True):
            below.remove(name)
    target.remove(MARK)
