"""One CommitLog record, and the blank record that ends a file.

    field                       type        offset with IPv4 hosts
    total_size                  i32         0
    magic_code                  i32         4   V1 0xDAA320A7, V2 0xDAA320AB (topic length i16 instead of i8)
    body_crc                    i32         8   CRC-32 of the stored body, top bit cleared
    queue_id                    i32         12
    flag                        i32         16
    queue_offset                i64         20
    phy_offset                  i64         28
    sys_flag                    i32         36
    born_timestamp              i64         40
    born_host                   8 | 20      48  ip + port i32
    store_timestamp             i64         56
    store_host                  8 | 20      64
    reconsume_times             i32         72
    prepared_transaction_offset i64         76
    body                        i32 + n     84
    topic                       i8|i16 + n
    properties                  i16 + n

A blank record is i32 remaining bytes of the file (these 8 included), i32 0xCBD43194.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from operator import eq
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties
from rocketflow_store.model.errors import (
    CorruptRecordError,
    MessageRejectedError,
    TruncatedRecordError,
    UnsupportedRecordError,
)
from rocketflow_store.model.fast_crc import crc32 as _crc32
from rocketflow_store.model.java_compat import crc32, wrap_int32
from rocketflow_store.model.message import ReceivedMessage
from rocketflow_store.model.message_id import decode_host
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Bytes: TypeAlias = bytes | bytearray | memoryview

MAGIC_V1: Final = wrap_int32(0xDAA320A7)
MAGIC_V2: Final = wrap_int32(0xDAA320AB)
BLANK_MAGIC: Final = wrap_int32(0xCBD43194)
BLANK_SIZE: Final = 8
MAX_V1_TOPIC_SIZE: Final = 127

SIZE_AND_MAGIC: Final = struct.Struct(">ii")
_HEAD: Final = struct.Struct(">iiiiiqqiq")
_TAIL: Final = struct.Struct(">iqi")
BEFORE_PLACE: Final = struct.Struct(">iiiii")
_PLACE: Final = struct.Struct(">qq")
PLACED_HEAD: Final = struct.Struct(">iiiiiqq")
"""`BEFORE_PLACE` and the offsets."""
AFTER_PLACE: Final = {(born, store): struct.Struct(f">iq{born}sq{store}siqi") for born in (8, 20) for store in (8, 20)}
_V6_FLAGS: Final = BORN_HOST_V6_FLAG | STORE_HOST_V6_FLAG
_IPV4_HOSTS: Final = 16
"""Bytes of both hosts if both are IPv4."""
_LAYOUTS: Final = {
    born_v6 | store_v6: struct.Struct(f">iiiiiqqiq{20 if born_v6 else 8}sq{20 if store_v6 else 8}siqi")
    for born_v6 in (0, BORN_HOST_V6_FLAG)
    for store_v6 in (0, STORE_HOST_V6_FLAG)
}
"""What stands before the body, by the kinds of its two hosts in sysFlag."""
SYS_FLAG_AT: Final = 36
HEAD_SIZE: Final = 48
FIXED_SIZE: Final = 74
"""Bytes of a record besides hosts, body, topic length, topic and properties."""
MIN_RECORD_SIZE: Final = FIXED_SIZE + 8 + 8 + 1
assert _HEAD.size == HEAD_SIZE

PROPERTY_CRC_SIZE: Final = 20
"""`__CRC32#` 0x01 ten digits 0x02, the last bytes of a record whose writer appends a property CRC."""
PROPERTY_CRC_NAME: Final = b"__CRC32#\x01"
_CRC_TAIL: Final = PROPERTY_CRC_NAME + b"%b\x02"
_DIGITS_AT: Final = len(PROPERTY_CRC_NAME) - PROPERTY_CRC_SIZE
PROPERTY_CRC_ALIKE: Final = 6
"""So many matching bytes of the ten around the digits mean a CRC, even if the others are damaged."""
ZEROS_OF_LMQ: Final = 20
"""Zeros that 5.2's writers leave at the end of the properties of LMQ messages; no writer leaves more."""
WHOLE_DIFFERS: Final = "CRC of the whole record differs"
BODY_DIFFERS: Final = "body CRC differs"
ZERO_PROPERTIES: Final = "the properties are zeros"


@dataclass(slots=True)
class RecordFields:
    """All parts of a record that are known before it has a place in the log.

    `properties` is the encoded string (without the property CRC); hosts are 8 or 20 bytes.
    """

    topic: bytes
    queue_id: int
    body: Bytes
    properties: bytes
    flag: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


def record_size(fields: RecordFields, property_crc: bool = False) -> int:
    """Return the bytes that `encode_record` will return."""
    size = FIXED_SIZE + len(fields.born_host) + len(fields.store_host) + len(fields.body) + len(fields.properties)
    size += len(fields.topic) + (1 if len(fields.topic) <= MAX_V1_TOPIC_SIZE else 2)
    return size + (_crc_room(fields.properties) if property_crc else 0)


def check_fits_a_file(size: int, file_size: int) -> None:
    """Raise MessageRejectedError if a record of `size` bytes leaves no space for a file's last blank record."""
    if size + BLANK_SIZE > file_size:
        why = (
            f"a record of {size:,} bytes does not fit into a CommitLog file of {file_size:,} (mappedFileSizeCommitLog)"
        )
        raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, why)


def _crc_room(properties: bytes) -> int:
    return PROPERTY_CRC_SIZE + (1 if properties and not properties.endswith(b"\x02") else 0)


def batch_parts(fields: RecordFields, store_timestamp: int) -> tuple[int, bytes, bytes]:
    """Return the common parts of all records of a client batch: magic, the bytes up to the body size, the topic.

    The records differ in flag, body and properties; `BEFORE_PLACE` packs the fields before their offsets.
    """
    born_host, store_host, topic = fields.born_host, fields.store_host, fields.topic
    sys_flag = fields.sys_flag & ~_V6_FLAGS
    sys_flag |= BORN_HOST_V6_FLAG if len(born_host) == 20 else 0
    sys_flag |= STORE_HOST_V6_FLAG if len(store_host) == 20 else 0
    after = AFTER_PLACE[len(born_host), len(store_host)].pack(
        *(sys_flag, fields.born_timestamp, born_host, store_timestamp, store_host),
        *(fields.reconsume_times, fields.prepared_transaction_offset, 0),
    )
    v1 = len(topic) <= MAX_V1_TOPIC_SIZE
    return MAGIC_V1 if v1 else MAGIC_V2, after[:-4], len(topic).to_bytes(1 if v1 else 2, "big") + topic


class UnplacedBytes(NamedTuple):
    """The bytes of a record without its queue offset and physical offset, which come between `before` and `rest`.

    `size` is that of the whole record, with its CRC if it gets one with its place.
    """

    before: bytes
    rest: bytes
    size: int


def ends_like_crc(properties: bytes) -> bool:
    """Return True if readers would take the end of these properties for the CRC of their record, and find it wrong."""
    if len(properties) < PROPERTY_CRC_SIZE:
        return False
    name = properties[-PROPERTY_CRC_SIZE:_DIGITS_AT]
    if name.isalnum() and name[3] != PROPERTY_CRC_NAME[3]:  # of the usual id at the end at most four bytes match
        return False
    alike: int = sum(map(eq, name, PROPERTY_CRC_NAME)) + (properties[-1] == 2)
    return alike >= PROPERTY_CRC_ALIKE


def unlike_crc(properties: bytes) -> bytes:
    """Return properties of a record without a CRC, in bytes that readers do not take for one.

    The last separator is optional: without it, or with it, another byte is where the name would be. Raises
    MessageRejectedError if both look like a CRC.
    """
    if not ends_like_crc(properties):
        return properties
    other = properties[:-1] if properties[-1] == 2 else properties + b"\x02"
    if ends_like_crc(other):
        raise MessageRejectedError(
            PutMessageStatus.MESSAGE_ILLEGAL, "the properties end as the CRC of a record does (__CRC32#)"
        )
    return other


def encode_unplaced(fields: RecordFields, store_timestamp: int, property_crc: bool = False) -> UnplacedBytes:
    """Return the record's bytes without its place; host flags in sysFlag follow from the hosts' lengths.

    Raises struct.error if a number does not fit into its field.
    """
    topic, properties, body = fields.topic, fields.properties, fields.body
    born_host, store_host, sys_flag = fields.born_host, fields.store_host, fields.sys_flag & ~_V6_FLAGS
    hosts = len(born_host) + len(store_host)
    if hosts != _IPV4_HOSTS:
        sys_flag |= BORN_HOST_V6_FLAG if len(born_host) == 20 else 0
        sys_flag |= STORE_HOST_V6_FLAG if len(store_host) == 20 else 0
    if property_crc:
        if properties and properties[-1] != 2:
            properties += b"\x02"
        property_size = len(properties) + PROPERTY_CRC_SIZE
    else:
        properties = unlike_crc(properties)
        property_size = len(properties)
    if len(topic) <= MAX_V1_TOPIC_SIZE:
        magic, topic_size = MAGIC_V1, len(topic).to_bytes(1, "big")
    else:
        magic, topic_size = MAGIC_V2, len(topic).to_bytes(2, "big")
    size = FIXED_SIZE + hosts + len(body) + len(topic_size) + len(topic) + property_size
    before = BEFORE_PLACE.pack(size, magic, _crc32(body) & 0x7FFFFFFF, fields.queue_id, fields.flag)
    after = AFTER_PLACE[len(born_host), len(store_host)].pack(
        sys_flag,
        fields.born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        fields.reconsume_times,
        fields.prepared_transaction_offset,
        len(body),
    )
    rest = b"".join((after, body, topic_size, topic, property_size.to_bytes(2, "big"), properties))
    return UnplacedBytes(before, rest, size)


def place_record(before: bytes, rest: bytes, queue_offset: int, phy_offset: int, property_crc: bool = False) -> bytes:
    """Return the record's bytes with its offsets."""
    placed = before + _PLACE.pack(queue_offset, phy_offset) + rest
    return placed + property_crc_tail(placed) if property_crc else placed


def encode_record(
    fields: RecordFields, phy_offset: int, queue_offset: int, store_timestamp: int, property_crc: bool = False
) -> bytes:
    """Return the record's bytes with its offsets: see `encode_unplaced`."""
    before, rest, _ = encode_unplaced(fields, store_timestamp, property_crc)
    return place_record(before, rest, queue_offset, phy_offset, property_crc)


def property_crc_tail(record_without_tail: Bytes) -> bytes:
    """Return the 20 bytes that protect a whole record: the CRC's decimal digits, least significant first."""
    return _CRC_TAIL % (b"%010d" % (_crc32(record_without_tail) & 0x7FFFFFFF))[::-1]


def encode_blank(remaining: int) -> bytes:
    """Return the blank record for a file with `remaining` bytes."""
    assert remaining >= BLANK_SIZE
    return SIZE_AND_MAGIC.pack(remaining, BLANK_MAGIC)


class RecordFrame(NamedTuple):
    """Positions of the parts of one record, in the view that it was found in, and its fixed fields."""

    position: int
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    phy_offset: int
    sys_flag: int
    born_timestamp: int
    body_start: int
    body_end: int
    topic_start: int
    topic_end: int

    @property
    def end(self) -> int:
        """Position after the record's last byte."""
        return self.position + self.size


def frame_record(view: Bytes, position: int = 0, file: object = "record") -> RecordFrame:
    """Locate the parts of the record at `position` of `view`; the body is not read, nothing is copied.

    Raises TruncatedRecordError if a length reaches past the view, CorruptRecordError if magic or lengths are
    inconsistent.
    """
    assert position >= 0
    remaining = len(view) - position
    if remaining < MIN_RECORD_SIZE:
        raise TruncatedRecordError(file, position, "record", MIN_RECORD_SIZE, remaining)
    size, magic, body_crc, queue_id, flag, queue_offset, phy_offset, sys_flag, born = _HEAD.unpack_from(view, position)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise _bad_magic(file, position, magic)
    if size < MIN_RECORD_SIZE or size > remaining:
        raise TruncatedRecordError(file, position, "record", size, remaining)
    end = position + size
    at = position + _hosts_end(sys_flag) + _TAIL.size
    if at > end:
        raise CorruptRecordError(file, position, f"fixed fields do not fit into a record of {size} bytes")
    body_size = _TAIL.unpack_from(view, at - _TAIL.size)[2]
    topic_length_size = 1 if magic == MAGIC_V1 else 2
    if body_size < 0 or at + body_size + topic_length_size + 2 > end:
        raise CorruptRecordError(file, position, f"body of {body_size} bytes does not fit into a record of {size}")
    topic_at = at + body_size + topic_length_size
    topic_size = int.from_bytes(view[topic_at - topic_length_size : topic_at], "big", signed=True)
    if topic_size < 0 or topic_at + topic_size + 2 > end:
        raise CorruptRecordError(file, position, f"topic of {topic_size} bytes does not fit into a record of {size}")
    topic_end = topic_at + topic_size
    properties_end = topic_end + 2 + max(int.from_bytes(view[topic_end : topic_end + 2], "big", signed=True), 0)
    if properties_end != end:
        raise CorruptRecordError(file, position, f"lengths add up to {properties_end - position}, not {size}")
    return RecordFrame(
        *(position, size, magic, body_crc, queue_id, flag, queue_offset, phy_offset, sys_flag, born),
        *(at, at + body_size, topic_at, topic_end),
    )


def has_record_crc(view: Bytes, frame: RecordFrame) -> bool:
    """Return True if the record's last property is the CRC of everything before it, possibly damaged."""
    start = frame.end - PROPERTY_CRC_SIZE
    if start < frame.topic_end + 2:
        return False
    name, end = view[start : start + len(PROPERTY_CRC_NAME)], view[frame.end - 1]
    if name == PROPERTY_CRC_NAME and end == 2:
        return True
    alike: int = sum(map(eq, name, PROPERTY_CRC_NAME)) + (end == 2)
    return alike >= PROPERTY_CRC_ALIKE


def whole_by_record_crc(record: Bytes) -> bool:
    """Return True if a record, of any layout, ends with the CRC of everything before it."""
    tail = bytes(record[-PROPERTY_CRC_SIZE:])
    digits = tail[len(PROPERTY_CRC_NAME) : -1]
    if not tail.startswith(PROPERTY_CRC_NAME) or tail[-1] != 2 or not digits.isdigit():
        return False
    return int(digits[::-1]) == crc32(record[:-PROPERTY_CRC_SIZE])


def content_fault(view: Bytes, frame: RecordFrame) -> str | None:
    """Return the fault in the bytes of a record whose lengths are right, or None; for many see `decoding.record_crc`.

    A record that ends with a CRC of itself is judged by that alone, in one pass; another by its body's CRC.
    """
    if has_record_crc(view, frame):
        return None if whole_by_record_crc(view[frame.position : frame.end]) else WHOLE_DIFFERS
    if crc32(view[frame.body_start : frame.body_end]) != frame.body_crc:
        return BODY_DIFFERS
    properties = bytes(view[max(frame.topic_end + 2, frame.end - ZEROS_OF_LMQ - 1) : frame.end])
    return ZERO_PROPERTIES if properties and not any(properties) else None


def _hosts_end(sys_flag: int) -> int:
    """Return the end of both hosts, from the record's first byte."""
    return 72 + (12 if sys_flag & BORN_HOST_V6_FLAG else 0) + (12 if sys_flag & STORE_HOST_V6_FLAG else 0)


def decode_record(
    view: Bytes, position: int = 0, file: object = "record", check_crc: bool = True, broker_name: str = ""
) -> ReceivedMessage:
    """Decode the message at `position` of `view`.

    Raises as `frame_record`, and CorruptRecordError if the record's CRC, or its body's, does not match.
    """
    if check_crc:
        fault = content_fault(view, frame_record(view, position, file))
        if fault is not None:
            raise CorruptRecordError(file, position, fault)
    return _decode(view, position, file, broker_name)


def decode_records(data: bytes, broker_name: str = "") -> Iterator[ReceivedMessage]:
    """Yield the messages of records that stand one after the other, as brokers answer pulls; no CRC is checked.

    Raises as `frame_record`.
    """
    position, size, place = 0, len(data), f"an answer of {broker_name}" if broker_name else "an answer"
    while position < size:
        message = _decode(data, position, place, broker_name)
        yield message
        position += message.store_size


def _decode(view: Bytes, position: int, file: object, broker_name: str) -> ReceivedMessage:
    """Decode one record in one step; the lengths of one that this does not fit are judged by `frame_record`."""
    try:
        layout = _LAYOUTS[int.from_bytes(view[position + SYS_FLAG_AT : position + SYS_FLAG_AT + 4], "big") & _V6_FLAGS]
        fixed = layout.unpack_from(view, position)
        size, magic, body_crc, queue_id, flag, queue_offset, phy_offset, sys_flag, born = fixed[:9]
        born_host, stored, store_host, reconsumed, prepared, body_size = fixed[9:]
        body_start = position + layout.size
        body_end = body_start + body_size
        topic_start = body_end + (1 if magic == MAGIC_V1 else 2)
        topic_end = topic_start + int.from_bytes(view[body_end:topic_start], "big")
        end = topic_end + 2 + (view[topic_end] << 8 | view[topic_end + 1])
        fits = body_size >= 0 and end == position + size <= len(view) and magic in (MAGIC_V1, MAGIC_V2)
    except (struct.error, IndexError):
        fits = False
    if not fits or topic_end - topic_start > MAX_V1_TOPIC_SIZE or end - topic_end > MAX_PROPERTIES_SIZE:
        frame = frame_record(view, position, file)
        body_start, body_end, end = frame.body_start, frame.body_end, frame.end
        topic_start, topic_end = frame.topic_start, frame.topic_end
    try:
        topic = str(view[topic_start:topic_end], "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptRecordError(file, position, "topic is not UTF-8") from error
    return ReceivedMessage(  # in the order of its fields: by name it takes a fifth longer
        topic,
        queue_id,
        queue_offset,
        bytes(view[body_start:body_end]),
        decode_properties(view[topic_end + 2 : end]),
        flag,
        sys_flag,
        born,
        decode_host(born_host),
        stored,
        decode_host(store_host),
        phy_offset,
        reconsumed,
        prepared,
        body_crc,
        size,
        broker_name,
    )


def _bad_magic(file: object, position: int, magic: int) -> CorruptRecordError | UnsupportedRecordError:
    return CorruptRecordError(file, position, f"magic code {magic & 0xFFFFFFFF:#010x} is not that of a record")
