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

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from rocketflow.remoting.errors import FrameError

MAX_FRAME_SIZE: Final = 16_777_216
"""Largest frame in bytes, its length field included (com.rocketmq.remoting.frameMaxLength)."""

_PREFIX: Final = 8


class HeaderType(IntEnum):
    """Serialization of a header."""

    JSON = 0
    ROCKETMQ = 1


class Frame(NamedTuple):
    """One frame; `header` and `body` are its bytes, not decoded."""

    header_type: HeaderType
    header: bytes
    body: bytes


class FrameReceiver:
    """Divides the bytes of a connection into frames.

    It holds no more than one incomplete frame, and grows with the bytes that have arrived, not with the length that a
    peer announces.
    """

    def __init__(self, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._max_frame_size = max_frame_size
        self._pending = bytearray()

    @property
    def pending_size(self) -> int:
        """Return the number of bytes of the frame that is not complete yet."""
        return len(self._pending)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next bytes of the connection and yield the frames that they complete; the caller takes all of them.

        Raises FrameError after the last frame where the bytes cannot go on as one; the receiver is of no use then.
        """
        if self._pending:
            self._pending += data
            if not self._is_complete():
                return
            data = bytes(self._pending)
            self._pending.clear()
        position = 0
        end = len(data)
        while end - position >= 4:
            size = self._checked_size(data, position)
            if end - position < 4 + size:
                break
            frame = _frame(data, position, size)
            position += 4 + size
            yield frame
        if position < end:
            self._pending += data[position:]

    def _is_complete(self) -> bool:
        """Check whether the pending bytes begin with a whole frame."""
        return len(self._pending) >= 4 and len(self._pending) >= 4 + self._checked_size(self._pending, 0)

    def _checked_size(self, data: bytes | bytearray, position: int) -> int:
        size = int.from_bytes(data[position : position + 4], "big", signed=True)
        if size < 4 or 4 + size > self._max_frame_size:
            raise FrameError(
                f"a frame of {4 + size} bytes is announced; between 8 and {self._max_frame_size} are allowed"
            )
        return size


def _frame(data: bytes, position: int, size: int) -> Frame:
    kind = data[position + 4]
    header_size = int.from_bytes(data[position + 5 : position + 8], "big")
    if header_size > size - 4:
        raise FrameError(f"a header of {header_size} bytes is announced in a frame of {4 + size} bytes")
    if kind > HeaderType.ROCKETMQ:
        raise FrameError(f"header type {kind} is unknown; 0 (JSON) and 1 (ROCKETMQ) are known")
    begin = position + _PREFIX
    body = begin + header_size
    return Frame(_HEADER_TYPES[kind], data[begin:body], data[body : position + 4 + size])


_HEADER_TYPES: Final = (HeaderType.JSON, HeaderType.ROCKETMQ)


def frame_bytes(header_type: HeaderType, header: bytes, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    size = 4 + len(header) + len(body)
    prefix = size.to_bytes(4, "big") + (header_type << 24 | len(header)).to_bytes(4, "big")
    return b"".join((prefix, header, body))
