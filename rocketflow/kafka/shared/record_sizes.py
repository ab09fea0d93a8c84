"""How many bytes a message takes in Kafka (message format 2), before compression.

`batch_size` is what a broker compares with `max.message.bytes`: a record batch that holds the message alone. A client
compares an estimate with `max_request_size`, in which the numbers before the key are as long as they can be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_BATCH_HEAD: Final = 61
_RECORD_HEAD: Final = 3
"""Attributes, and the deltas of time and offset, which are 0 in a batch of one."""
_MOST_RECORD_HEAD: Final = 21
Header = tuple[str, bytes | None]


def batch_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Bytes of a record batch with this message alone."""
    size = _RECORD_HEAD + _parts_size(key, value, headers)
    return _BATCH_HEAD + _varint_size(size) + size


def client_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Bytes that kafka-python takes a message for."""
    return _BATCH_HEAD + _MOST_RECORD_HEAD + _parts_size(key, value, headers)


def header_size(name: str, value: bytes | None) -> int:
    """Bytes of a header."""
    return _sized(name.encode()) + _sized(value)


def _parts_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    return _sized(key) + _sized(value) + _varint_size(len(headers)) + sum(header_size(*one) for one in headers)


def _sized(data: bytes | None) -> int:
    """Bytes of a byte string and of its length, which is -1 for null."""
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(value: int) -> int:
    """Bytes of a zigzag varint that is not negative."""
    return max(((value << 1).bit_length() + 6) // 7, 1)
