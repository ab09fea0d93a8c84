"""Small files of our own: one line with the CRC-32 of the rest, then JSON. What cannot be believed is not there."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from rocketflow_store.files import os_files
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path


def read_checked_json(path: Path) -> dict[str, Any] | None:
    """The object in a file, None where there is none that is whole."""
    try:
        head, _, body = os_files.read_file(path).partition(b"\n")
        return parse_json_object(body.decode("utf-8")) if int(head, 16) == zlib.crc32(body) else None
    except (OSError, StoreError, ValueError):
        return None


def write_checked_json(path: Path, told: dict[str, Any]) -> None:
    """Put an object into a file, durably: temporary, sync, rename, sync of the directory."""
    body = json.dumps(told, separators=(",", ":")).encode()
    os_files.write_atomically(path, b"%08x\n" % zlib.crc32(body) + body)
