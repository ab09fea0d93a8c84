"""The few Java behaviours that stored bytes depend on.

string_hash   String.hashCode: over UTF-16 code units, wrapped to a signed 32-bit integer
index_hash    Math.abs of it, with RocketMQ's corner: abs(Integer.MIN_VALUE) counts as 0
crc32         CRC-32 with the top bit cleared (RocketMQ's UtilAll.crc32)
java_text     new String(bytes, UTF_8); java_bytes its counterpart, String.getBytes(UTF_8)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from operator import mul
from typing import Final

from rocketflow_store.model.fast_crc import crc32 as _crc32

_TAIL: Final = 12
"""So many last characters of a key are hashed separately: a client's UNIQ_KEYs differ only there."""
_POWERS: Final = tuple(tuple(31**at for at in range(count - 1, -1, -1)) for count in range(_TAIL + 1))
_TAIL_POWERS: Final = tuple(31**count & 0xFFFFFFFF for count in range(_TAIL + 1))
_HALF_PAIR: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half of a surrogate pair as UTF-8 would encode it, perhaps without its last byte."""
_REPLACEMENT: Final = "\ufffd".encode()


def java_text(raw: bytes | bytearray | memoryview) -> str:
    """Decode UTF-8; what is none becomes U+FFFD, as often as in Java: once for half of a surrogate pair."""
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        return _HALF_PAIR.sub(_REPLACEMENT, raw).decode("utf-8", "replace")


def java_bytes(text: str) -> bytes:
    """Encode as UTF-8; half of a surrogate pair becomes "?", as in Java."""
    return text.encode("utf-8", "replace")


def wrap_int32(value: int) -> int:
    """Return the low 32 bits of `value` as Java's int."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def wrap_int64(value: int) -> int:
    """Return the low 64 bits of `value` as Java's long."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


@lru_cache(maxsize=65536)
def string_hash(text: str) -> int:
    """Return Java's String.hashCode of `text`, in [-2**31, 2**31)."""
    value = 0
    if text.isascii():
        for unit in text.encode("ascii"):
            value = 31 * value + unit
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for at in range(0, len(raw), 2):
            value = (31 * value + (raw[at] << 8 | raw[at + 1])) & 0xFFFFFFFF
    return wrap_int32(value)


TAG_KEY_PREFIX: Final = "T#"
_TAG_MARK: Final = f"#{TAG_KEY_PREFIX}"
"""Index keys of TAGS begin with it: `topic#T#tags` (RocketMQ 5.4.0, IndexService.buildIndex)."""


def index_hash(topic: str, key: str) -> int:
    """Return the key hash of an index entry, in [0, 2**31)."""
    return index_hash_of(f"{topic}#{key}")


def index_hash_of(text: str) -> int:
    """Return `index_hash` of a topic and a key that are joined by `#`."""
    return _tag_hash(text) if _TAG_MARK in text else _index_hash(text)


def index_hashes_one_by_one(texts: Sequence[str]) -> list[int]:
    """Return `index_hash_of` of each text."""
    return [_tag_hash(text) if _TAG_MARK in text else _index_hash(text) for text in texts]


def _index_hash(text: str) -> int:
    value: int
    tail = text[-_TAIL:]
    if tail.isascii():  # hash(head + tail) = hash(head) * 31 ** len(tail) + hash(tail)
        count = len(tail)
        value = string_hash(text[:-_TAIL]) * _TAIL_POWERS[count]
        value = (value + sum(map(mul, tail.encode("ascii"), _POWERS[count]))) & 0xFFFFFFFF
    else:
        value = string_hash(text) & 0xFFFFFFFF
    if value >> 31:  # Java's Math.abs, which leaves the least int as it is: that counts as 0
        value = -value & 0x7FFFFFFF
    return value


_tag_hash = lru_cache(maxsize=4096)(_index_hash)
"""Cached: TAGS recur."""


def crc32(data: bytes | bytearray | memoryview) -> int:
    """Return the CRC-32 of `data` with the top bit cleared, in [0, 2**31)."""
    return int(_crc32(data)) & 0x7FFFFFFF
