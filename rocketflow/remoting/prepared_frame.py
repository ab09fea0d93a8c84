"""Requests and answers of which only some fields change: the JSON header is encoded once, and each fills its fields in.

RocketMQ's source: remoting/protocol/RemotingCommand.java (fastEncodeHeader) does this for its binary header.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from rocketflow.remoting.command import VERSION, Command, encode_command
from rocketflow.remoting.frame import FrameReceiver, HeaderType, frame_bytes

_ENCODER: Final = msgspec.json.Encoder()

_OPAQUE_AT: Final = 5
_SIZE_AT: Final = 17
"""Places in a ROCKETMQ header: of `opaque`, and of the size of all fields."""


class PreparedFrame:
    """A request or answer (`flag`) with a JSON header whose `changing` fields get their values for each frame."""

    def __init__(
        self, code: int, fields: Mapping[str, str], changing: Sequence[str], *, flag: int = 0, remark: str | None = None
    ) -> None:
        self.code, self._fields, self._changing, self._flag = code, dict(fields), changing, flag
        fixed = _ENCODER.encode(fields)[:-1].replace(b"%", b"%%") + (b"," if fields else b"")
        self._format = (
            b'{"code":%d,"extFields":' % code
            + fixed
            + b",".join(b'"%b":%%b' % name.encode() for name in changing)
            + b'},"flag":%d,"language":"PYTHON","opaque":%%d' % flag
            + (b"" if remark is None else b',"remark":' + _ENCODER.encode(remark).replace(b"%", b"%%"))
            + b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION
        )

    def frame(self, opaque: int, values: tuple[bytes, ...], body: bytes | bytearray = b"") -> bytes:
        """Return the frame of one request or answer; `values` are those of the changing fields, in their order."""
        return frame_bytes(HeaderType.JSON, self._format % (*values, opaque), body)

    def parts(self) -> tuple[bytes, ...]:
        """Return the header's parts before the values of the changing fields, and before and after `opaque`."""
        *before, last = (self._format % (*(b"\0" for _ in self._changing), 0)).split(b"\0")
        head, name, tail = last.rpartition(b'"opaque":')
        return *before, head + name, tail[1:]

    def binary_parts(self) -> tuple[bytes, ...]:
        """Return the parts of the same header in ROCKETMQ's own form, which has no remark here.

        They are what precedes the value of each changing field, and what is before and after `opaque`. A header is the
        part before `opaque`, its number, the part after it, the size of all fields, and the fields.
        """
        command = Command(self.code, self._fields, flag=self._flag, header_type=HeaderType.ROCKETMQ)
        header = next(FrameReceiver().feed(encode_command(command))).header
        first, *more = (len(name).to_bytes(2, "big") + name for name in map(str.encode, self._changing))
        return header[_SIZE_AT + 4 :] + first, *more, header[:_OPAQUE_AT], header[_OPAQUE_AT + 4 : _SIZE_AT]


def text_value(value: str) -> bytes:
    """Return a text as the value of a field."""
    return _ENCODER.encode(value)


def number_value(value: int) -> bytes:
    """Return a number as the value of a field: a text, as all values of fields are."""
    return b'"%d"' % value
