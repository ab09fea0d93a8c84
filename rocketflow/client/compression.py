"""Compressed bodies: zlib, LZ4 (frames) and Zstandard, as RocketMQ's clients write them.

RocketMQ's source: common/compression/*.java, common/sysflag/MessageSysFlag.java.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from rocketflow.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

COMPRESSED_FLAG: Final = 0x1
_TYPE_SHIFT: Final = 8
_TYPE_MASK: Final = 0x7
COMPRESSION_MASK: Final = COMPRESSED_FLAG | _TYPE_MASK << _TYPE_SHIFT
"""The bits of sysFlag that say how a body is compressed."""
_LZ4_PIECE: Final = 8 << 10
_ZSTD_PIECE: Final = 4 << 10
MAX_BODY: Final = 128 * 1024 * 1024
"""The most bytes that a decompressed body may have: a small body cannot fill the memory of a consumer."""


class Compression(IntEnum):
    """The kinds of compression; the values are those of a record's sysFlag, bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


class DamagedBodyError(ClientError):
    """A body cannot be decompressed."""


def compression_of(sys_flag: int) -> Compression | None:
    """Return the compression of a record's body, None for not at all. Raises DamagedBodyError for other types."""
    if not sys_flag & COMPRESSED_FLAG:
        return None
    kind = sys_flag >> _TYPE_SHIFT & _TYPE_MASK
    if kind > Compression.ZLIB:
        raise DamagedBodyError(f"sysFlag {sys_flag:#x}: compression type {kind} is not known")
    return Compression(kind or Compression.ZLIB)  # 4.9 writes 0 for zlib


def flags_of(compression: Compression) -> int:
    """Return the bits of sysFlag for a compressed body."""
    return COMPRESSED_FLAG | compression << _TYPE_SHIFT


def compress(body: bytes, compression: Compression, level: int = 5) -> bytes:
    """Return a compressed body."""
    if compression is Compression.ZLIB:
        return zlib.compress(body, level)
    if compression is Compression.LZ4:
        import lz4.frame

        return bytes(lz4.frame.compress(body))
    import zstandard

    return zstandard.ZstdCompressor(level).compress(body)


def plain_body(data: bytes, sys_flag: int) -> tuple[bytes, str]:
    """Return a record's body and "", or the body as it is stored and the reason why it cannot be decompressed."""
    if not data:  # an empty body stays empty, as in RocketMQ
        return data, ""
    try:
        compression = compression_of(sys_flag)
        return (data, "") if compression is None else (decompress(data, compression), "")
    except DamagedBodyError as error:
        return data, str(error)


def decompress(data: bytes, compression: Compression) -> bytes:
    """Return the body. Raises DamagedBodyError, also above MAX_BODY bytes and where the end is missing."""
    try:
        if compression is Compression.ZLIB:
            stream = zlib.decompressobj()
            body, ended = stream.decompress(data, MAX_BODY + 1), stream.eof
        elif compression is Compression.LZ4:
            import lz4.frame

            frame = lz4.frame.LZ4FrameDecompressor()
            body, ended = frame.decompress(data, MAX_BODY + 1), frame.eof
            if ended and frame.unused_data:
                body, ended = _frames(lz4.frame.LZ4FrameDecompressor, data, _LZ4_PIECE)
        else:
            import zstandard

            body, ended = _frames(zstandard.ZstdDecompressor().decompressobj, data, _ZSTD_PIECE)
    except Exception as error:  # each library has its own errors, lz4 the bare RuntimeError
        raise DamagedBodyError(f"a body cannot be decompressed by {compression.name}: {error}") from None
    if len(body) > MAX_BODY:
        raise DamagedBodyError(f"a body has more than {MAX_BODY:,} bytes after {compression.name}")
    if not ended:
        raise DamagedBodyError(f"a body compressed by {compression.name} has no end")
    return body


def _frames(frame_of: Callable[[], Any], data: bytes, piece: int) -> tuple[bytes, bool]:
    """Return the contents of all frames, as RocketMQ's clients do, and whether the last one has its end.

    It stops above MAX_BODY bytes. A piece bounds what its frames become, and the copies that many small frames need.
    """
    parts, size, at, ended = list[bytes](), 0, 0, False
    while at < len(data) and size <= MAX_BODY:
        frame, ended = frame_of(), False
        while not ended and at < len(data) and size <= MAX_BODY:
            some = data[at : at + piece]
            parts.append(frame.decompress(some))
            size += len(parts[-1])
            at += len(some) - len(frame.unused_data or b"")
            ended = frame.eof
    return b"".join(parts), ended
