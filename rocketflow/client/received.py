"""Messages as brokers answer them: records of the CommitLog, decoded.

RocketMQ's source: common/message/MessageDecoder.java (decode, decodes, decodeMessage), MessageExt.java.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from rocketflow.client.compression import COMPRESSED_FLAG, plain_body
from rocketflow.client.errors import ClientError

_MAGIC_V1: Final = -626843481
_MAGIC_V2: Final = -626843477
_BORN_V6: Final = 0x10
_STORED_V6: Final = 0x20
_SYS_FLAG_AT: Final = 36
_WRAPPED: Final = 0x40 | 0x80
"""The bits of sysFlag of a record whose body is a batch, NEED_UNWRAP_FLAG and INNER_BATCH_FLAG."""
_ENTRY: Final = struct.Struct(">5i")
_PROPERTIES_SIZE: Final = struct.Struct(">h")
_UNSIGNED: Final = 2**64 - 1
_LAYOUTS: Final = {
    born | stored: struct.Struct(f">iiIiiqqiq{20 if born else 8}sq{20 if stored else 8}siqi")
    for born in (0, _BORN_V6)
    for stored in (0, _STORED_V6)
}
"""What stands before the body, by the kinds of its two hosts in sysFlag."""


class DamagedRecordError(ClientError):
    """The bytes of an answer are no records."""


@dataclass(slots=True)
class ReceivedMessage:
    """A stored message.

    `properties` has TAGS, KEYS and UNIQ_KEY too; times are milliseconds since 1970; `body` is decompressed,
    `stored_body_size` is its size before, in bytes. `broker_name` is that of the queue
    it was read from, "" where the answer names none. A broker stores bodies as they are sent: where `body_error` is not
    "", the body could not be decoded for this reason, and `body` is as it is stored.
    """

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    properties: dict[str, str]
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: str = ""
    store_timestamp: int = 0
    store_host: str = ""
    physical_offset: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    store_size: int = 0
    stored_body_size: int = 0
    broker_name: str = ""
    offset_message_id: str = field(default="")
    body_error: str = ""

    @property
    def tags(self) -> str | None:
        """Return the tag, None for none."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> list[str]:
        """Return the keys by which an index finds the message."""
        return self.properties.get("KEYS", "").split()

    @property
    def message_id(self) -> str:
        """Return UNIQ_KEY, which the producer made, or else the id of the place where it is stored."""
        return self.properties.get("UNIQ_KEY") or self.offset_message_id


def decode_properties(data: bytes) -> dict[str, str]:
    """Decode `name 0x01 value 0x02 ...`; parts without a name or a value are skipped, as RocketMQ does."""
    found = {}
    for part in data.decode("utf-8", "replace").split("\x02"):
        name, mark, value = part.partition("\x01")
        if mark and name and value:
            found[name] = value
    return found


def decode_records(data: bytes, broker_name: str = "") -> Iterator[ReceivedMessage]:
    """Yield the messages of an answer's body. Raises DamagedRecordError."""
    position = 0
    while position < len(data):
        message, position = _decode(data, position, broker_name)
        yield message


def unwrapped(message: ReceivedMessage) -> list[ReceivedMessage]:
    """Return the messages of an inner batch with their own offsets in the queue, and any other message as it is.

    A batch whose body cannot be decompressed is one message. Raises DamagedRecordError.
    """
    if message.sys_flag & _WRAPPED != _WRAPPED or message.body_error:
        return [message]
    found: list[ReceivedMessage] = []
    body, position = message.body, 0
    try:
        while position < len(body):
            size, _, _, flag, body_size = _ENTRY.unpack_from(body, position)
            body_at = position + _ENTRY.size
            properties_at = body_at + body_size
            (properties_size,) = _PROPERTIES_SIZE.unpack_from(body, properties_at)
            end = properties_at + _PROPERTIES_SIZE.size + properties_size
            if body_size < 0 or properties_size < 0 or not end == position + size <= len(body):
                raise ValueError
            one = replace(
                message,
                queue_offset=message.queue_offset + len(found),
                body=body[body_at:properties_at],
                properties=decode_properties(body[properties_at + _PROPERTIES_SIZE.size : end]),
                flag=flag,
                body_crc=0,
                stored_body_size=body_size,
            )
            found.append(one)
            position = end
    except (struct.error, ValueError):
        raise DamagedRecordError(
            f"the batch at offset {message.queue_offset} of queue {message.queue_id} is damaged at byte {position}"
        ) from None
    return found


def messages_of(data: bytes, broker_name: str = "") -> Iterator[ReceivedMessage]:
    """Yield the messages of an answer's body, those of inner batches each; a batch that is none is one message.

    Raises DamagedRecordError.
    """
    for record in decode_records(data, broker_name):
        try:
            yield from unwrapped(record)
        except DamagedRecordError as error:
            yield replace(record, body_error=str(error))


def _decode(data: bytes, begin: int, broker_name: str) -> tuple[ReceivedMessage, int]:
    try:
        sys_flag = int.from_bytes(data[begin + _SYS_FLAG_AT : begin + _SYS_FLAG_AT + 4], "big")
        layout = _LAYOUTS[sys_flag & (_BORN_V6 | _STORED_V6)]
        fixed = layout.unpack_from(data, begin)
        size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born = fixed[:9]
        born_host, stored, store_host, reconsumed, prepared, body_size = fixed[9:]
        end = begin + size
        if size <= layout.size or end > len(data) or magic not in (_MAGIC_V1, _MAGIC_V2):
            raise DamagedRecordError(f"no record at byte {begin} of an answer: size {size}, magic {magic}")
        at = begin + layout.size
        body = data[at : at + max(body_size, 0)]
        at += len(body)
        width = 1 if magic == _MAGIC_V1 else 2
        topic_end = at + width + int.from_bytes(data[at : at + width], "big")
        topic = data[at + width : topic_end].decode()
        properties_end = topic_end + 2 + int.from_bytes(data[topic_end : topic_end + 2], "big")
    except (struct.error, UnicodeDecodeError, OSError, ValueError) as error:
        raise DamagedRecordError(f"the record at byte {begin} of an answer is damaged: {error}") from None
    if body_size < 0 or properties_end > end:
        raise DamagedRecordError(f"the record at byte {begin} of an answer is damaged: its parts exceed its size")
    plain, body_error = plain_body(body, sys_flag) if sys_flag & COMPRESSED_FLAG else (body, "")
    message = ReceivedMessage(  # in the order of its fields: by name it takes a fifth longer
        topic,
        queue_id,
        queue_offset,
        plain,
        decode_properties(data[topic_end + 2 : properties_end]),
        flag,
        sys_flag,
        born,
        _host_text(born_host),
        stored,
        _host_text(store_host),
        physical,
        reconsumed,
        prepared,
        crc,
        size,
        len(body),
        broker_name,
        f"{_id_prefix(store_host)}{physical & _UNSIGNED:016X}",
        body_error,
    )
    return message, end


@lru_cache(4096)
def _host_text(packed: bytes) -> str:
    """Return the text of a packed host, IPv4 or IPv6, and its port."""
    host = socket.inet_ntop(socket.AF_INET if len(packed) == 8 else socket.AF_INET6, packed[:-4])
    (port,) = struct.unpack(">i", packed[-4:])
    return f"{host}:{port}" if len(packed) == 8 else f"[{host}]:{port}"


@lru_cache(4096)
def _id_prefix(packed: bytes) -> str:
    """Return the beginning of the offset ids of a broker: its packed host and port in hexadecimal digits."""
    return packed.hex().upper()
