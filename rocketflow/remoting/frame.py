"""Frames: how requests and answers follow each other on a connection.

| offset | size | content |
|---|---|---|
| 0 | 4 | number of bytes that follow: 4 + header + body |
| 4 | 1 | header type: 0 JSON, 1 ROCKETMQ |
| 5 | 3 | size of the header |
| 8 | | header, then body |

RocketMQ's source: remoting/netty/NettyDecoder.java, remoting/protocol/RemotingCommand.java (decode, encode).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final, NoReturn, Protocol, cast

import msgspec

from rocketflow.remoting.errors import FrameError

MAX_FRAME_SIZE: Final = 16_777_216
"""Largest frame in bytes, its length field included (com.rocketmq.remoting.frameMaxLength)."""

_PREFIX: Final = struct.Struct(">iI")
"""Bytes that follow; header type and size of the header."""

_SMALLEST: Final = 4

_SMALL_PART: Final = 4096
"""Received parts below this many bytes are joined with the next one: a peer cannot make many objects of few bytes."""


_SMALL: Final = 65_536
"""Frames up to this many bytes are offered to a taker although they came in parts: to join them costs little."""

_OTHER_PROTOCOLS: Final = {
    0x1603: "a TLS handshake has come to a port without TLS: set tls.server.certPath and tls.server.keyPath of the "
    "server (tls.server.mode must not be disabled), or let the client connect without TLS",
    0x1503: "the server has answered with a TLS alert: its port demands TLS, connect with it",
    0x5052: "an HTTP/2 connection has come to a port of RocketMQ's remoting protocol: gRPC clients need RocketMQ's "
    "proxy",
}
"""What begins with these two bytes, each of which would announce a frame that is too large."""


class HeaderType(IntEnum):
    """Serialization of a header."""

    JSON = 0
    ROCKETMQ = 1


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame; `header` and `body` are its bytes, not decoded."""

    header_type: HeaderType
    header: bytes
    body: bytes


class TakenFrames(Protocol):
    """Frames that follow each other and were taken as they are; `end` is where the next one begins.

    `FrameReceiver().feed(taken.frames())` divides them.
    """

    @property
    def end(self) -> int: ...
    def frames(self) -> bytes: ...


TakeFrames = Callable[[bytes, int], TakenFrames | None]
"""Takes whole frames of received bytes from a position on, where one begins; returns None if it takes none."""


class FrameReceiver:
    """Divides the bytes of a connection into frames.

    It holds no more than one incomplete frame, and grows with the bytes that have arrived, not with the length that a
    peer announces.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._max_frame_size = max_frame_size
        self._parts: list[bytes] = []
        self._size = 0
        self._whole = 4

    @property
    def pending_size(self) -> int:
        """Return the number of bytes of the frame that is not complete yet."""
        return self._size

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next bytes of the connection and yield the frames that they complete; the caller takes all of them.

        Raises FrameError after the last frame where the bytes cannot go on as one; the receiver is of no use then.
        """
        return cast("Iterator[Frame]", self.divide(data, None))

    def divide(self, data: bytes, take: TakeFrames | None) -> Iterator[Frame | TakenFrames]:
        """Take the next bytes as `feed` does; yield what `take` takes of them as it is."""
        if self._size:
            self._keep(data)
            if self._size < self._whole:
                return
            if take is not None and self._whole <= _SMALL:
                data = self._joined()
            else:
                frame, data = self._completed()
                yield frame
        position, end = 0, len(data)
        while end - position >= _PREFIX.size:
            if take is not None and (taken := take(data, position)) is not None:
                position = taken.end
                yield taken
                continue
            size, kind = _PREFIX.unpack_from(data, position)
            if not _SMALLEST <= size <= self._max_frame_size - 4:
                self._refuse(size)
            begin, stop = position + _PREFIX.size, position + 4 + size
            if stop > end:
                break
            body = begin + _header_size(size, kind)
            position = stop
            yield Frame(_HEADER_TYPES[kind >> 24], data[begin:body], data[body:stop])
        if position < end:
            self._keep(data[position:])

    def _keep(self, data: bytes) -> None:
        """Keep bytes of an incomplete frame. Raises FrameError if they cannot begin one."""
        if self._parts and len(self._parts[-1]) < _SMALL_PART:
            self._parts[-1] += data
        else:
            self._parts.append(data)
        self._size += len(data)
        if self._whole == 4 and self._size >= 4:
            size = int.from_bytes(self._parts[0][:4], "big", signed=True)
            if not _SMALLEST <= size <= self._max_frame_size - 4:
                self._refuse(size)
            self._whole = 4 + size

    def _joined(self) -> bytes:
        """Return all bytes that are held, from the beginning of a frame on."""
        parts, self._parts, self._size, self._whole = self._parts, [], 0, 4
        return b"".join(parts)

    def _completed(self) -> tuple[Frame, bytes]:
        """Return the frame that is whole now, its body in one copy, and the bytes after it."""
        parts, more = self._parts, self._size - self._whole
        self._parts, self._size, self._whole = [], 0, 4
        size, kind = _PREFIX.unpack_from(parts[0])
        body = _PREFIX.size + _header_size(size, kind)
        if len(parts[0]) < body:
            parts = [b"".join(parts)]
        first, end = parts[0], len(parts[-1]) - more
        after = parts[-1][end:]
        parts[-1] = parts[-1][:end]
        header = first[_PREFIX.size : body]
        parts[0] = parts[0][body:]
        return Frame(_HEADER_TYPES[kind >> 24], header, b"".join(parts)), after

    def _refuse(self, size: int) -> NoReturn:
        other = _OTHER_PROTOCOLS.get(size >> 16)
        if other:
            raise FrameError(other)
        raise FrameError(f"a frame of {4 + size} bytes is announced; between 8 and {self._max_frame_size} are allowed")


def _header_size(size: int, kind: int) -> int:
    """Return the size of a frame's header. Raises FrameError for a type or a size that no header has."""
    header_size = kind & 0xFFFFFF
    if header_size > size - 4:
        raise FrameError(f"a header of {header_size} bytes is announced in a frame of {4 + size} bytes")
    if kind >> 24 > HeaderType.ROCKETMQ:
        raise FrameError(f"header type {kind >> 24} is unknown; 0 (JSON) and 1 (ROCKETMQ) are known")
    return header_size


_HEADER_TYPES: Final = (HeaderType.JSON, HeaderType.ROCKETMQ)


def frame_bytes(header_type: HeaderType, header: bytes, body: bytes | bytearray = b"") -> bytes:
    """Return the bytes of a frame."""
    return b"".join((_prefix(header_type, header, body), header, body))


def frame_parts(header_type: HeaderType, header: bytes, body: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    """Return the bytes of a frame before its body, and the body itself."""
    return _prefix(header_type, header, body) + header, body


def _prefix(header_type: HeaderType, header: bytes, body: bytes | bytearray | memoryview) -> bytes:
    return _PREFIX.pack(4 + len(header) + len(body), header_type << 24 | len(header))
