"""`NAME.rocketflow/store.id`, beside a log directory outside of the root: the store that owns the directory.

The file holds the store's id (`storeId` of `store.meta`) and a line end. RocketMQ does not read that directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from pathlib import Path

OWNER_FILE: Final = "store.id"


def read_owner(path: Path) -> str | None:
    """Return the store id in a file; None if the file cannot be read."""
    try:
        return os_files.read_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def write_owner(path: Path, store_id: str) -> None:
    """Write the store id durably; create the directory of the file."""
    os_files.make_directory(path.parent)
    os_files.write_atomically(path, f"{store_id}\n".encode())
    os_files.sync_directory(path.parent.parent)
