"""The body of a client's batch, as producers send it and as an inner batch keeps it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, message_property_text
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.message import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ENTRY: Final = struct.Struct(">iiiii")
_SIZE_FLAG_BODY: Final = struct.Struct(">i8xii")
"""Size of the entry, flag, and size of its body."""
_PROPERTIES_SIZE: Final = struct.Struct(">h")
FLAG_AT: Final = 12
BODY_SIZE_AT: Final = 16
BODY_AT: Final = _ENTRY.size
FIXED_SIZE: Final = _ENTRY.size + _PROPERTIES_SIZE.size
"""Bytes of an entry besides body and properties."""


class BatchEntry(NamedTuple):
    """One message of a batch body; `properties` is its encoded string."""

    flag: int
    body: bytes
    properties: bytes


Entry: TypeAlias = tuple[int, bytes, bytes]
"""A `BatchEntry` as a plain tuple, which costs a third: flag, body, encoded properties."""


def batch_body(messages: Iterable[Message]) -> bytes:
    """Encode messages as the body of a batch. Raises ValueError for properties that cannot be encoded."""
    return encode_batch_body([(one.flag, one.body, message_property_text(one).encode()) for one in messages])


def usual_batch(
    messages: Sequence[Message], topic: str, most: int, new_keys: tuple[str, int]
) -> tuple[bytes, str] | None:
    """Return the body of messages of a topic that may be a batch, and their unique keys, joined by commas.

    Messages without a key get that of their number, counted from `new_keys` (see `UniqKeyGenerator.reserve`). Returns
    None, and changes nothing, without the kernel, or if a message is unusual or a body or the batch has more than
    `most` bytes.
    """
    if COMPILED is None:
        return None
    found: tuple[bytes, str] | None = COMPILED.batch_of(messages, Message, topic, most, *new_keys)
    return found


def encode_batch_body(entries: Iterable[Entry]) -> bytes:
    """Encode the entries one after the other; raise ValueError if a property string is too long."""
    parts: list[bytes] = []
    for flag, body, properties in entries:
        if len(properties) > MAX_PROPERTIES_SIZE:
            raise ValueError(f"properties of {len(properties)} bytes, at most {MAX_PROPERTIES_SIZE} are allowed")
        parts.append(_ENTRY.pack(FIXED_SIZE + len(body) + len(properties), 0, 0, flag, len(body)))
        parts += (body, _PROPERTIES_SIZE.pack(len(properties)), properties)
    return b"".join(parts)


def batch_entries(body: bytes) -> list[Entry]:
    """Return flag, body and encoded properties of each entry; raise ValueError if they do not fill `body` exactly."""
    entries: list[Entry] = []
    at, end = 0, len(body)
    unpack, append, last = _SIZE_FLAG_BODY.unpack_from, entries.append, end - FIXED_SIZE
    while at <= last:
        size, flag, body_size = unpack(body, at)
        begin, middle = at + BODY_AT, at + BODY_AT + body_size
        if body_size < 0 or middle + 2 > end:
            raise ValueError(f"entry {len(entries)} at {at}: body of {body_size} bytes reaches outside of the batch")
        properties_size = body[middle] << 8 | body[middle + 1]
        following = at + size
        if size != FIXED_SIZE + body_size + properties_size or following > end or properties_size > MAX_PROPERTIES_SIZE:
            raise ValueError(f"entry {len(entries)} at {at}: lengths do not add up to {size}")
        append((flag, body[begin:middle], body[middle + 2 : following]))
        at = following
    if at != end:
        raise ValueError(f"{end - at} bytes after entry {len(entries) - 1} are no entry")
    return entries


def entry_positions(body: bytes) -> list[int]:
    """Return the positions of the entries of a batch body; raise ValueError as `batch_entries` does."""
    positions, at = [], 0
    for _, own_body, properties in batch_entries(body):
        positions.append(at)
        at += FIXED_SIZE + len(own_body) + len(properties)
    return positions


def decode_batch_body(body: bytes) -> list[BatchEntry]:
    """Decode the entries of a batch body; raise ValueError if it is invalid."""
    return [BatchEntry(*one) for one in batch_entries(body)]
