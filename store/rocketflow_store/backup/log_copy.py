"""The copy of the CommitLog beside a writer, whose retention may delete the oldest files meanwhile."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.model.errors import StoreAccessError, StoreVersionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.metadata.layout.store_paths import StorePaths

_STEP_BYTES: Final = 64 << 20


def copy_log(
    source: StorePaths, target: StorePaths, file_size: int, end: int, copied: Callable[[int], None]
) -> tuple[int, int]:
    """Copy the log up to the physical offset `end`, durably; return where the copy begins, and its number of files.

    The newest file comes first: once retention has deleted one, it has deleted all older ones too, and the copies are
    one range at any time. `copied` is called with the bytes that are done.

    Raises:
        StoreVersionError: A file between others is missing.
        StoreFullError: The disk is full.
    """
    os_files.make_directory(target.commit_log)
    entries = source.log_directories().entries()
    begin, count, done = end, 0, 0
    for base in sorted((one for one in entries if one <= end), reverse=True):
        path = Path(entries[base].path)
        if count and base + file_size != begin:
            missing = path.with_name(file_name(begin - file_size))
            raise StoreVersionError(missing, "is missing between other CommitLog files; restore it")
        try:
            fd = os_files.open_file(path, write=False)
        except StoreAccessError:
            if path.exists():
                raise
            break
        try:
            size = min(file_size, end - base)
            _copy_file((fd, path), target.commit_log / file_name(base), file_size, size, partial(_ahead, copied, done))
        finally:
            os_files.close_file(fd)
        begin, count, done = base, count + 1, done + size
    os_files.sync_directory(target.commit_log)
    return begin, count


def _ahead(copied: Callable[[int], None], before: int, done: int) -> None:
    copied(before + done)


def _copy_file(source: tuple[int, Path], path: Path, file_size: int, size: int, copied: Callable[[int], None]) -> None:
    """Copy the first `size` bytes of a file to a new one of `file_size` bytes, and sync it."""
    try:
        fd = os_files.create_exclusively(path, write=True)
    except OSError as error:
        raise os_files.access_error(path, error) from error
    try:
        if size < file_size:  # a writer continues in this file
            os_files.preallocate(fd, path, file_size)
        for start in range(0, size, _STEP_BYTES):
            stop = min(start + _STEP_BYTES, size)
            os_files.copy_range(source, (fd, path), start, stop)
            os_files.begin_writeback(fd, start, stop - start)
            copied(stop)
        os_files.sync_file(fd, path)
    finally:
        os_files.close_file(fd)
