"""A local skeleton of a store in object storage: its small files, and sparse files with names and sizes of the rest.

The state of the store (topics, deleted topics, where its last writer stopped, existing queues, file sizes) is then read
as for any other store; the bytes of its log come from object storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rocketflow_store.files.remote import RemoteDirectory

_SMALL: Final = (
    *("abort", "checkpoint", "config/topics.json", "config/topics.json.bak"),
    *("rocketflow/stop", "rocketflow/deleted", "rocketflow/deleted.bak"),
    *("rocketflow/store.meta", "rocketflow/store.meta.bak"),
)
_ROCKSDB_STORE: Final = "rocksdbstore"
"""Its existence shows which RocketMQ version wrote: see `recovery.derived_profile`."""
_SIZED: Final = ("commitlog", "consumequeue", "batchconsumequeue", "index")


def make_skeleton(directory: RemoteDirectory, root: Path) -> None:
    """Make `root` look like the store in `directory`; files of which only the size matters have no blocks."""
    there = dict(directory.files())
    for subdirectory in ("config", "rocketflow"):
        there |= {f"{subdirectory}/{name}": size for name, size in directory.below(subdirectory).files()}
    for name in _SMALL:
        if name in there:
            path = root / name
            os_files.make_directory(path.parent)
            os_files.write_atomically(path, directory.read(name))
    if any(True for _ in directory.below(_ROCKSDB_STORE).files()):
        os_files.make_directory(root / _ROCKSDB_STORE)
    for subdirectory in _SIZED:
        _make_sized(root / subdirectory, directory.below(subdirectory).files(recursive=True))


def _make_sized(parent: Path, files: Iterable[tuple[str, int]]) -> None:
    for name, size in files:
        parts = name.split("/")
        if not parts[-1].isdigit() or ".." in parts:
            continue
        path = parent.joinpath(*parts)
        os_files.make_directory(path.parent)
        fd = os_files.open_file(path, write=True, create=True)
        try:
            os_files.make_sparse(fd, path, size)
        finally:
            os_files.close_file(fd)
