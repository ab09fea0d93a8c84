"""Read small files that several parts of one operation need once for every version of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    ReadFile: TypeAlias = Callable[[Path], bytes]
    """Returns all bytes of a file, as `os_files.read_file` does."""


class ReadOnce:
    """A `ReadFile` with a cache: a file with the same inode, size and modification time is not read again."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int, int], bytes]] = {}

    def __call__(self, path: Path) -> bytes:
        status = path.stat()
        signature = status.st_ino, status.st_size, status.st_mtime_ns
        known = self._known.get(path)
        if known is None or known[0] != signature:
            known = self._known[path] = signature, os_files.read_file(path)
        return known[1]
