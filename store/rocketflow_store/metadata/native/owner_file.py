"""`NAME.rocketflow/store.id`, beside a log directory outside of the root: whose log files are there.

The store's id (`storeId` of `store.meta`) and a line end. RocketMQ does not look into that directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from pathlib import Path

OWNER_FILE: Final = "store.id"


def read_owner(path: Path) -> str | None:
    """Return the id of the store that a file names; None without the file."""
    try:
        return os_files.read_file(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def write_owner(path: Path, store_id: str) -> None:
    """Name the store, durably; the directory of the file is made."""
    os_files.make_directory(path.parent)
    os_files.write_atomically(path, f"{store_id}\n".encode())
    os_files.sync_directory(path.parent.parent)
