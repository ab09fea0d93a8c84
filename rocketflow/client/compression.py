"""Compressed bodies: zlib, LZ4 (frames) and Zstandard, as RocketMQ's clients write them.

RocketMQ's source: common/compression/*.java, common/sysflag/MessageSysFlag.java.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

from rocketflow.client.errors import ClientError

COMPRESSED_FLAG: Final = 0x1
_TYPE_SHIFT: Final = 8
_TYPE_MASK: Final = 0x7
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
        else:
            import zstandard

            one = zstandard.ZstdDecompressor().decompressobj()
            body = b""
            for begin in range(0, len(data), 65_536):
                body += one.decompress(data[begin : begin + 65_536])
                if len(body) > MAX_BODY:
                    break
            ended = one.eof
    except Exception as error:  # each library has its own errors, lz4 the bare RuntimeError
        raise DamagedBodyError(f"a body cannot be decompressed by {compression.name}: {error}") from None
    if len(body) > MAX_BODY:
        raise DamagedBodyError(f"a body has more than {MAX_BODY:,} bytes after {compression.name}")
    if not ended:
        raise DamagedBodyError(f"a body compressed by {compression.name} has no end")
    return body
