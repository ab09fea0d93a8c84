"""Messages as the wire has them: property strings and the bodies of batches, without I/O.

RocketMQ's source: common/message/MessageDecoder.java (messageProperties2String, encodeMessages).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

_ENTRY: Final = struct.Struct(">iiiii")
_MAX_PROPERTIES: Final = 32_767


class OutgoingMessage(NamedTuple):
    """A message to send; `properties` includes TAGS and KEYS."""

    body: bytes
    properties: Mapping[str, str]
    flag: int = 0


def property_string(properties: Mapping[str, str]) -> bytes:
    """Encode properties. Raises ValueError for names and values with separators, and above 32,767 bytes."""
    for name, value in properties.items():
        if not name or any(mark in text for mark in "\x01\x02" for text in (name, value)):
            raise ValueError(f"property {name!r}: names and values must not contain the bytes 1 and 2")
    data = "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()
    if len(data) > _MAX_PROPERTIES:
        raise ValueError(f"properties have {len(data)} bytes, at most {_MAX_PROPERTIES} are allowed")
    return data


def batch_body(messages: Iterable[OutgoingMessage]) -> bytes:
    """Encode messages as the body of a batch. Raises ValueError as `property_string` does."""
    parts: list[bytes] = []
    for message in messages:
        properties = property_string(message.properties)
        size = _ENTRY.size + len(message.body) + 2 + len(properties)
        parts.append(_ENTRY.pack(size, 0, 0, message.flag, len(message.body)))
        parts += (message.body, len(properties).to_bytes(2, "big"), properties)
    return b"".join(parts)
