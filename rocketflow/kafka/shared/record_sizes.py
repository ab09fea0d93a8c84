"""The size of a message in Kafka (message format 2) in bytes, before compression.

A broker compares `batch_size`, the size of a record batch with this message alone, with `max.message.bytes`. A client
compares an estimate (`client_size`), with the fields before the key at their maximum length, with `max_request_size`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_BATCH_HEAD: Final = 61
_RECORD_HEAD: Final = 3
"""Attributes, and the timestamp and offset deltas, which are 0 in a batch of one record."""
_MOST_RECORD_HEAD: Final = 21
Header = tuple[str, bytes | None]


def batch_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return the size of a record batch with this message alone."""
    size = _RECORD_HEAD + _parts_size(key, value, headers)
    return _BATCH_HEAD + _varint_size(size) + size


def client_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Return kafka-python's estimate of a message's size."""
    return _BATCH_HEAD + _MOST_RECORD_HEAD + _parts_size(key, value, headers)


def header_size(name: str, value: bytes | None) -> int:
    return _sized(name.encode()) + _sized(value)


def _parts_size(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    return _sized(key) + _sized(value) + _varint_size(len(headers)) + sum(header_size(*one) for one in headers)


def _sized(data: bytes | None) -> int:
    """Return the size of a byte string with its length prefix, which is -1 for null."""
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(value: int) -> int:
    """Return the size of a non-negative zigzag varint."""
    return max(((value << 1).bit_length() + 6) // 7, 1)
