"""Completion of last files of wrong length, which a stop between the steps of creating a file leaves (E5).

A short file is filled up with zeros; bytes after the size of a long one go to `quarantine/`, unless they are zeros; an
empty file, of which a power loss kept only the name, is removed. Only the newest file of the log and of a queue is
changed, and only after an unclean stop: an older queue file of another length is rebuilt from the log. If a power loss
removed the complete log, there is nothing to rebuild from: then every empty queue file is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.recovery.quarantine import CUT, Quarantine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig


def complete_last_files(paths: StorePaths, config: StoreConfig) -> list[Path]:
    """Give the newest file of the log and of every queue its size; return the files that were changed."""
    changed: list[Path] = []
    has_log = False
    for directories, size in _places(paths, config):
        files = _files(directories)
        while files and files[-1].stat().st_size == 0:
            changed.append(files.pop())
        if directories == paths.commit_logs:
            has_log = bool(files)
        elif not has_log:
            changed += [one for one in files if one.stat().st_size == 0]
        last = files[-1] if files else None
        if last is not None and last.stat().st_size != size:
            _complete(paths, last, size, sparse=directories != paths.commit_logs)
            changed.append(last)
    for one in changed:
        if one.stat().st_size == 0:
            os_files.remove_file(one)
    return changed


def _places(paths: StorePaths, config: StoreConfig) -> Iterator[tuple[tuple[Path, ...], int]]:
    """Yield (directories of the log or of a queue, size of their files)."""
    yield paths.commit_logs, config.mapped_file_size_commit_log
    for directory, size in (
        (paths.consume_queue, config.mapped_file_size_consume_queue),
        (paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue),
    ):
        for topic in sorted(directory.iterdir()) if directory.is_dir() else []:
            for queue in sorted(topic.iterdir()) if topic.is_dir() else []:
                yield (queue,), size


def _files(directories: tuple[Path, ...]) -> list[Path]:
    """Return the log or queue files in `directories`, in the order of their offsets."""
    there = [one for directory in directories if directory.is_dir() for one in directory.iterdir()]
    files = [one for one in there if one.name.isdigit() and len(one.name) >= 20 and one.is_file()]
    return sorted(files, key=lambda one: int(one.name))


def _complete(paths: StorePaths, path: Path, size: int, *, sparse: bool) -> None:
    fd = os_files.open_file(path, write=True)
    try:
        actual = os_files.file_size(fd)
        if actual > size:
            excess = os_files.read_at(fd, size, actual - size, path)
            if excess.strip(b"\0"):
                quarantine = Quarantine(paths)
                kept = quarantine.keep(f"{quarantine.name_of(path)}.behind-{size}", excess)
                quarantine.note(CUT, path, size, len(excess), "after the size of the file", kept)
            os_files.make_sparse(fd, path, size)
        elif sparse:
            os_files.make_sparse(fd, path, size)
        else:
            os_files.preallocate(fd, path, size)
        os_files.sync_file(fd, path)
    finally:
        os_files.close_file(fd)
