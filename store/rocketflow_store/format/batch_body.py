"""The body of a client's batch, as producers send it and as an inner batch keeps it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

_ENTRY: Final = struct.Struct(">iiiii")
_SIZES: Final = struct.Struct(">i12xi")
"""Sizes of the entry and of its body."""
_PROPERTIES_SIZE: Final = struct.Struct(">h")
FLAG_AT: Final = 12
FLAG_AND_BODY_SIZE: Final = struct.Struct(">ii")
"""At FLAG_AT of an entry."""
BODY_SIZE_AT: Final = 16
BODY_AT: Final = _ENTRY.size
FIXED_SIZE: Final = _ENTRY.size + _PROPERTIES_SIZE.size
"""Bytes of an entry besides body and properties."""


class BatchEntry(NamedTuple):
    """One message of a batch body; `properties` is its encoded string."""

    flag: int
    body: bytes
    properties: bytes


def encode_batch_body(entries: Iterable[BatchEntry]) -> bytes:
    """Encode the entries one after the other; raise ValueError if a property string is too long."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        if len(properties) > MAX_PROPERTIES_SIZE:
            raise ValueError(f"properties of {len(properties)} bytes, at most {MAX_PROPERTIES_SIZE} are allowed")
        parts.append(_ENTRY.pack(FIXED_SIZE + len(body) + len(properties), 0, 0, flag, len(body)))
        parts += (body, _PROPERTIES_SIZE.pack(len(properties)), properties)
    return b"".join(parts)


def entry_positions(body: bytes) -> list[int]:
    """Return the positions of the entries of a batch body; raise ValueError if they do not fill it exactly."""
    positions: list[int] = []
    at, end = 0, len(body)
    unpack, append, last = _SIZES.unpack_from, positions.append, end - FIXED_SIZE
    while at <= last:
        size, body_size = unpack(body, at)
        properties_at = at + BODY_AT + body_size
        if body_size < 0 or properties_at + 2 > end:
            raise ValueError(f"entry {len(positions)} at {at}: body of {body_size} bytes reaches outside of the batch")
        properties_size = body[properties_at] << 8 | body[properties_at + 1]
        if size != FIXED_SIZE + body_size + properties_size or at + size > end or properties_size > MAX_PROPERTIES_SIZE:
            raise ValueError(f"entry {len(positions)} at {at}: lengths do not add up to {size}")
        append(at)
        at += size
    if at != end:
        raise ValueError(f"{end - at} bytes after entry {len(positions) - 1} are no entry")
    return positions


def decode_batch_body(body: bytes) -> list[BatchEntry]:
    """Decode the entries of a batch body; raise ValueError if it is invalid."""
    entries = []
    for at in entry_positions(body):
        size, _, _, flag, body_size = _ENTRY.unpack_from(body, at)
        middle = at + BODY_AT + body_size
        entries.append(BatchEntry(flag, body[at + BODY_AT : middle], body[middle + 2 : at + size]))
    return entries
