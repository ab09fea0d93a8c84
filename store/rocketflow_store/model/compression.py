"""Message bodies compressed by clients: zlib (RFC 1950), LZ4 frames, Zstandard frames.

The store keeps the bytes that it was sent; a reader that needs the body decompresses it here, with a bound on the
output.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.model.errors import CorruptRecordError, UnsupportedRecordError
from rocketflow_store.model.system_flags import COMPRESSED_FLAG, COMPRESSION_TYPE_MASK, COMPRESSION_TYPE_SHIFT

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DECOMPRESSED_SIZE: Final = 128 << 20
"""RocketMQ's clients have no limit; a small body must not fill the memory of a reader."""
_ZLIB_TYPES: Final = (0, 3)
_LZ4_TYPE: Final = 1
_ZSTD_TYPE: Final = 2
_LZ4_PIECE: Final = 8 << 10
_ZSTD_LEAST_IN: Final = 4
_ZSTD_MOST_OUT: Final = 128 << 10
"""A block of a Zstandard frame takes this many bytes at least, and becomes this many at most (RFC 8878, 3.1.1.2)."""


def decompress_body(stored: bytes | memoryview, sys_flag: int, limit: int = MAX_DECOMPRESSED_SIZE) -> bytes:
    """Decompress `stored` by the compression type in `sys_flag`; the result has at most `limit` bytes."""
    if not len(stored):  # an empty body stays empty, as in RocketMQ
        return b""
    kind = (sys_flag & COMPRESSION_TYPE_MASK) >> COMPRESSION_TYPE_SHIFT
    if kind in _ZLIB_TYPES:
        return _bounded(_zlib, "zlib", stored, limit)
    if kind == _LZ4_TYPE:
        return _bounded(_lz4, "lz4", stored, limit)
    if kind == _ZSTD_TYPE:
        return _bounded(_zstd, "zstd", stored, limit)
    raise UnsupportedRecordError("body", 0, f"compression type {kind} in sysFlag {sys_flag:#x} is not known")


class Compression(IntEnum):
    """The kinds of compression; the values are those of sysFlag, bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits of sysFlag for a compressed body."""
        return COMPRESSED_FLAG | self << COMPRESSION_TYPE_SHIFT


def compress_body(body: bytes, kind: int, level: int = 5) -> bytes:
    """Compress `body` as type 0/3 zlib, 1 LZ4, 2 Zstandard: as a client does; LZ4 has one level."""
    if kind in _ZLIB_TYPES:
        return zlib.compress(body, level)
    if kind == _LZ4_TYPE:
        import lz4.frame

        return bytes(lz4.frame.compress(body))
    if kind == _ZSTD_TYPE:
        import zstandard

        return zstandard.ZstdCompressor(level).compress(body)
    raise ValueError(f"compression type {kind} is not known")


def _bounded(decode: object, name: str, stored: bytes | memoryview, limit: int) -> bytes:
    try:
        out: bytes = decode(bytes(stored), limit + 1)  # type: ignore[operator]
    except CorruptRecordError:
        raise
    except Exception as error:  # each library has its own errors; all mean the same here
        raise CorruptRecordError("body", 0, f"does not decompress as {name}: {error}") from error
    if len(out) > limit:
        raise _too_large(limit)
    return out


def _too_large(limit: int) -> CorruptRecordError:
    return CorruptRecordError("body", 0, f"decompresses to more than {limit} bytes")


def _zlib(stored: bytes, limit: int) -> bytes:
    engine = zlib.decompressobj()
    out = engine.decompress(stored, limit)
    if not engine.eof and len(out) < limit:
        raise CorruptRecordError("body", 0, "zlib stream ends too early")
    return out


def _lz4(stored: bytes, limit: int) -> bytes:
    import lz4.frame

    engine = lz4.frame.LZ4FrameDecompressor()
    out = bytes(engine.decompress(stored, max_length=limit))
    if len(out) >= limit or (engine.eof and not engine.unused_data):
        return out
    return _frames(lz4.frame.LZ4FrameDecompressor, "lz4", stored, limit, _LZ4_PIECE)


def _zstd(stored: bytes, limit: int) -> bytes:
    import zstandard

    size = max(1, limit // _ZSTD_MOST_OUT * _ZSTD_LEAST_IN)  # a piece of input cannot become more than `limit` bytes
    return _frames(zstandard.ZstdDecompressor().decompressobj, "zstd", stored, limit, size)


def _frames(engine_of: Callable[[], Any], name: str, stored: bytes, limit: int, piece: int) -> bytes:
    """Return the contents of all frames, one after the other, as RocketMQ's clients do; `piece` bytes at a time.

    A piece bounds what its frames become, and the copies that many small frames need.
    """
    parts, found, at = list[bytes](), 0, 0
    while at < len(stored):
        engine = engine_of()
        while not engine.eof:
            some = stored[at : at + piece]
            if not some:
                raise CorruptRecordError("body", 0, f"{name} frame ends too early")
            parts.append(bytes(engine.decompress(some)))
            found += len(parts[-1])
            if found >= limit:
                raise _too_large(limit - 1)
            at += len(some) - len(engine.unused_data or b"")
    return b"".join(parts)
