"""Last files of odd length: what a stop between the steps of making a file leaves (E5). They are made whole.

A short file is filled up with zeros; what stands behind the size of a long one goes to `quarantine/`, if it is not
zeros; an empty file, of which a power loss kept the name alone, goes. Only the newest file of the log and of a queue is
touched, and only after an unclean stop: an older one of another length is made again from the log. Where a power loss
took all of the log there is nothing to make it from: then every empty file of a queue goes.
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


def make_last_files_whole(paths: StorePaths, config: StoreConfig) -> list[Path]:
    """Give the newest file of the log and of every queue its size; those that were changed."""
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
            _make_whole(paths, last, size, sparse=directories != paths.commit_logs)
            changed.append(last)
    for one in changed:
        if one.stat().st_size == 0:
            os_files.remove_file(one)
    return changed


def _places(paths: StorePaths, config: StoreConfig) -> Iterator[tuple[tuple[Path, ...], int]]:
    """(directories of the log or of a queue, size of the files)."""
    yield paths.commit_logs, config.mapped_file_size_commit_log
    for directory, size in (
        (paths.consume_queue, config.mapped_file_size_consume_queue),
        (paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue),
    ):
        for topic in sorted(directory.iterdir()) if directory.is_dir() else []:
            for queue in sorted(topic.iterdir()) if topic.is_dir() else []:
                yield (queue,), size


def _files(directories: tuple[Path, ...]) -> list[Path]:
    """By their place."""
    there = [one for directory in directories if directory.is_dir() for one in directory.iterdir()]
    files = [one for one in there if one.name.isdigit() and len(one.name) >= 20 and one.is_file()]
    return sorted(files, key=lambda one: int(one.name))


def _make_whole(paths: StorePaths, path: Path, size: int, *, sparse: bool) -> None:
    fd = os_files.open_file(path, write=True)
    try:
        actual = os_files.file_size(fd)
        if actual > size:
            excess = os_files.read_at(fd, size, actual - size, path)
            if excess.strip(b"\0"):
                quarantine = Quarantine(paths)
                kept = quarantine.keep(f"{quarantine.name_of(path)}.behind-{size}", excess)
                quarantine.note(CUT, path, size, len(excess), "behind the size of the file", kept)
            os_files.make_sparse(fd, path, size)
        elif sparse:
            os_files.make_sparse(fd, path, size)
        else:
            os_files.preallocate(fd, path, size)
        os_files.sync_file(fd, path)
    finally:
        os_files.close_file(fd)
