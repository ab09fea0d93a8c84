"""List a directory's files with their sizes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.files.os_files import access_error

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """A file (or directory) and its size in bytes."""

    name: str
    size: int
    is_file: bool


def directory_entries(directory: Path) -> list[DirectoryEntry]:
    """Return the entries of a directory by name; none if it does not exist. Raises StoreAccessError."""
    try:
        with os.scandir(directory) as entries:
            return sorted(
                (DirectoryEntry(one.name, one.stat().st_size, one.is_file()) for one in entries),
                key=lambda one: one.name,
            )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise access_error(directory, error) from error


def is_file_name(entry: DirectoryEntry, digits: int) -> bool:
    """Return True if the name is a number of at least `digits` digits, as RocketMQ names its files."""
    return entry.name.isascii() and entry.name.isdigit() and len(entry.name) >= digits
