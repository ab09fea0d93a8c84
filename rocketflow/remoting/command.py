"""Requests and answers: a frame's header decoded, and encoded again in either header type.

RocketMQ's source: remoting/protocol/RemotingCommand.java, RocketMQSerializable.java, LanguageCode.java.
"""

from __future__ import annotations

import struct
from typing import Final, TypeVar

import msgspec

from rocketflow.remoting.errors import HeaderError
from rocketflow.remoting.frame import Frame, HeaderType, frame_bytes, frame_parts
from rocketflow.remoting.headers.header import (
    Header,
    Int32,
    decode_fields,
    decode_json_fields,
    encode_fields,
    text_fields,
)

LANGUAGES: Final = tuple("JAVA CPP DOTNET PYTHON DELPHI ERLANG RUBY OTHER HTTP GO PHP OMS RUST NODE_JS".split())  # noqa: SIM905
"""Names of `LanguageCode`, each at its code."""

_KNOWN_LANGUAGES: Final = frozenset(LANGUAGES)

VERSION: Final = 479
"""The version that RocketFlow announces: V5_3_3 in MQVersion."""

RESPONSE_FLAG: Final = 1
ONE_WAY_FLAG: Final = 2

H = TypeVar("H", bound=Header)


class Command:
    """One request or one answer.

    `fields` are the values of its header class as texts; `header` decodes them. `language` is a name of `LANGUAGES`, or
    None where the peer sent another one.
    """

    __slots__ = (
        "_fields",
        "_raw_fields",
        "body",
        "code",
        "flag",
        "header_type",
        "language",
        "opaque",
        "remark",
        "version",
    )

    def __init__(
        self,
        code: int,
        fields: dict[str, str] | msgspec.Raw | None = None,
        *,
        body: bytes = b"",
        flag: int = 0,
        opaque: int = 0,
        version: int = VERSION,
        language: str | None = "PYTHON",
        remark: str | None = None,
        header_type: HeaderType = HeaderType.JSON,
    ) -> None:
        self.code = code
        self.body = body
        self.flag = flag
        self.opaque = opaque
        self.version = version
        self.language = language
        self.remark = remark
        self.header_type = header_type
        self._raw_fields: msgspec.Raw | None = None
        self._fields: dict[str, str] | None = None
        if isinstance(fields, msgspec.Raw):
            self._raw_fields = fields
        else:
            self._fields = fields or {}

    @property
    def is_response(self) -> bool:
        """Return whether this is an answer."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_one_way(self) -> bool:
        """Return whether the sender wants no answer."""
        return bool(self.flag & ONE_WAY_FLAG)

    @property
    def fields(self) -> dict[str, str]:
        """Return `extFields`. Raises HeaderError if they are not an object of plain values."""
        if self._fields is None:
            self._fields = text_fields(self._raw_fields or b"{}")
        return self._fields

    def header(self, header: type[H]) -> H:
        """Decode the fields of a header class. Raises HeaderError where one is missing or has the wrong type."""
        if self._fields is None and self._raw_fields is not None:
            return decode_json_fields(header, self._raw_fields)
        return decode_fields(header, self.fields)


def request(
    code: int, header: Header | None = None, *, body: bytes = b"", opaque: int = 0, one_way: bool = False
) -> Command:
    """Return a request; `opaque` identifies it among those of its connection."""
    fields = {} if header is None else encode_fields(header)
    return Command(code, fields, body=body, opaque=opaque, flag=ONE_WAY_FLAG if one_way else 0)


def answer(
    to: Command, code: int = 0, header: Header | None = None, *, body: bytes = b"", remark: str | None = None
) -> Command:
    """Return the answer to a request: the same `opaque` and header type."""
    fields = {} if header is None else encode_fields(header)
    return Command(
        code, fields, body=body, flag=RESPONSE_FLAG, opaque=to.opaque, remark=remark, header_type=to.header_type
    )


class _Envelope(msgspec.Struct):
    """The JSON header, its members in the order in which fastjson writes them."""

    code: Int32
    extFields: msgspec.Raw = msgspec.Raw()  # noqa: N815
    flag: Int32 = 0
    language: str | int | None = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    version: Int32 = 0


class _WrittenEnvelope(msgspec.Struct):
    code: int
    extFields: dict[str, str] | msgspec.UnsetType  # noqa: N815
    flag: int
    language: str
    opaque: int
    remark: str | msgspec.UnsetType
    serializeTypeCurrentRPC: str  # noqa: N815
    version: int


_NO_FIELDS: Final = frozenset((b"", b"null", b"{}"))
_DECODER: Final = msgspec.json.Decoder(_Envelope, strict=False)
_ENCODER: Final = msgspec.json.Encoder()


def decode_command(frame: Frame) -> Command:
    """Decode a frame's header. Raises HeaderError."""
    if frame.header_type is HeaderType.ROCKETMQ:
        return _decode_rocketmq(frame)
    try:
        envelope = _DECODER.decode(frame.header)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HeaderError(f"JSON header: {error}") from None
    raw = envelope.extFields
    return Command(
        envelope.code,
        None if bytes(raw) in _NO_FIELDS else raw,
        body=frame.body,
        flag=envelope.flag,
        opaque=envelope.opaque,
        version=envelope.version,
        language=_language(envelope.language),
        remark=envelope.remark,
    )


def encode_command(command: Command) -> bytes:
    """Return the frame of a request or an answer, in its header type."""
    return frame_bytes(command.header_type, _encode_header(command), command.body)


def encode_parts(command: Command, body: bytes | memoryview) -> tuple[bytes, bytes | memoryview]:
    """Return the frame as `encode_command` does, with another body and that apart: a large one is not copied."""
    return frame_parts(command.header_type, _encode_header(command), body)


def _encode_header(command: Command) -> bytes:
    if command.header_type is HeaderType.ROCKETMQ:
        return _encode_rocketmq(command)
    return _ENCODER.encode(
        _WrittenEnvelope(
            code=command.code,
            extFields=command.fields or msgspec.UNSET,
            flag=command.flag,
            language=command.language or "OTHER",
            opaque=command.opaque,
            remark=msgspec.UNSET if command.remark is None else command.remark,
            serializeTypeCurrentRPC="JSON",
            version=command.version,
        )
    )


def _language(value: str | int | None) -> str | None:
    """Return the name of a language, which fastjson writes as a name and reads as a name or a number."""
    if value in _KNOWN_LANGUAGES:
        return value
    if isinstance(value, str) and not value.isdecimal():
        return value.upper() if value.upper() in _KNOWN_LANGUAGES else None
    if value is None or len(str(value)) > 2 or not 0 <= int(value) < len(LANGUAGES):
        return None
    return LANGUAGES[int(value)]


_FIXED: Final = struct.Struct(">hbhii")


def _decode_rocketmq(frame: Frame) -> Command:
    header = frame.header
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, position = _sized(header, _FIXED.size, 4)
        raw, end = _sized(header, position, 4)
        if end != len(header):
            raise HeaderError(f"ROCKETMQ header: {len(header) - end} bytes follow its fields")
        fields = _decode_map(raw)
        return Command(
            code,
            fields,
            body=frame.body,
            flag=flag,
            opaque=opaque,
            version=version,
            language=_language(language),
            remark=remark.decode() if remark else None,
            header_type=HeaderType.ROCKETMQ,
        )
    except (struct.error, UnicodeDecodeError) as error:
        raise HeaderError(f"ROCKETMQ header: {error}") from None


def _decode_map(raw: bytes) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(raw):
        name, position = _sized(raw, position, 2)
        value, position = _sized(raw, position, 4)
        fields[name.decode()] = value.decode()
    return fields


def _sized(data: bytes, position: int, width: int) -> tuple[bytes, int]:
    """Return the bytes whose size is the integer of `width` bytes at `position`, and their end."""
    begin = position + width
    size = int.from_bytes(data[position:begin], "big", signed=True)
    if begin > len(data) or not 0 <= size <= len(data) - begin:
        raise HeaderError(f"ROCKETMQ header: {size} bytes are announced at {position}, {len(data) - begin} follow")
    return data[begin : begin + size], begin + size


def _encode_rocketmq(command: Command) -> bytes:
    if not -(2**15) <= command.code < 2**15:
        raise HeaderError(f"code {command.code} does not fit a ROCKETMQ header; use a JSON header")
    language = LANGUAGES.index(command.language or "OTHER")
    parts = [_FIXED.pack(command.code, language, command.version, command.opaque, command.flag)]
    remark = (command.remark or "").encode()
    parts += (len(remark).to_bytes(4, "big"), remark)
    written = bytearray()
    for name, value in command.fields.items():
        for width, text in ((2, name.encode()), (4, value.encode())):
            written += len(text).to_bytes(width, "big") + text
    parts += (len(written).to_bytes(4, "big"), bytes(written))
    return b"".join(parts)
