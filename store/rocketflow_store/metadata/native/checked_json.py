"""Small files of RocketFlow: one line with the CRC-32 of the rest (8 hex digits), then a JSON object."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

from rocketflow_store.files import os_files
from rocketflow_store.files.fastjson import parse_json_object
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def encode_checked_json(document: Mapping[str, Any]) -> bytes:
    """Return the file's bytes."""
    body = json.dumps(document, separators=(",", ":")).encode()
    return b"%08x\n" % zlib.crc32(body) + body


def decode_checked_json(data: bytes) -> dict[str, Any]:
    """Return the object in a file's bytes; raise ValueError if they are incomplete or invalid."""
    head, _, body = data.partition(b"\n")
    if int(head, 16) != zlib.crc32(body):
        raise ValueError("its CRC differs")
    return parse_json_object(body.decode("utf-8"))


def read_checked_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file; None if the file is missing or invalid."""
    try:
        return decode_checked_json(os_files.read_file(path))
    except (OSError, StoreError, ValueError):
        return None


def write_checked_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write an object to a file, durably: temporary file, sync, rename, sync of the directory."""
    os_files.write_atomically(path, encode_checked_json(document))
