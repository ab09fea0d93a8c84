"""Bytes of stored records, for tests that need no store."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from rocketflow_store.format.record import RecordFields

_HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"


def record(
    topic: str, queue_offset: int, body: bytes, properties: Mapping[str, str] | None = None, *, sys_flag: int = 0
) -> bytes:
    """Return a record of queue 0 with IPv4 hosts and the CRC of its body; its physical offset is 1000 times its own."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in (properties or {}).items()).encode()
    name = topic.encode()
    size = 88 + len(body) + 1 + len(name) + 2 + len(text)
    crc = zlib.crc32(body) & 0x7FFFFFFF
    head = struct.pack(">iiIiiqqiq", size, -626843481, crc, 0, 0, queue_offset, queue_offset * 1000, sys_flag, 1_000)
    middle = struct.pack(">8sq8siqi", _HOST, 2_000, _HOST, 0, 0, len(body))
    return head + middle + body + bytes([len(name)]) + name + struct.pack(">H", len(text)) + text


def unplaced_record(topic: str, body: bytes, *, sys_flag: int = 0) -> RecordFields:
    """Return the fields of a record of queue 0 for `put_record`: also of a kind that a put refuses."""
    return RecordFields(topic.encode(), 0, body, b"", 0, sys_flag, 2_000, _HOST, _HOST)
