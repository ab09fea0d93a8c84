"""Messages as brokers answer them: records of the CommitLog, decoded.

RocketMQ's source: common/message/MessageDecoder.java (decode, decodes), MessageExt.java.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from rocketflow.client.compression import compression_of, decompress
from rocketflow.client.errors import ClientError
from rocketflow.client.ids import offset_id

_HEAD: Final = struct.Struct(">iiIiiqqiq")
_MAGIC_V1: Final = -626843481
_MAGIC_V2: Final = -626843477
_BORN_V6: Final = 0x10
_STORED_V6: Final = 0x20


class DamagedRecordError(ClientError):
    """The bytes of an answer are no records."""


@dataclass(slots=True)
class ReceivedMessage:
    """A stored message.

    `properties` has TAGS, KEYS and UNIQ_KEY too; times are milliseconds since 1970; `body` is decompressed,
    `stored_body_size` is its size before, in bytes. `broker_name` is that of the queue
    it was read from, "" where the answer names none.
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
    """Yield the messages of an answer's body. Raises DamagedRecordError and DamagedBodyError."""
    position = 0
    while position < len(data):
        message, position = _decode(data, position, broker_name)
        yield message


def _decode(data: bytes, begin: int, broker_name: str) -> tuple[ReceivedMessage, int]:
    try:
        size, magic, crc, queue_id, flag, queue_offset, physical, sys_flag, born = _HEAD.unpack_from(data, begin)
        end = begin + size
        if size <= _HEAD.size or end > len(data) or magic not in (_MAGIC_V1, _MAGIC_V2):
            raise DamagedRecordError(f"no record at byte {begin} of an answer: size {size}, magic {magic}")
        born_host, at = _host(data, begin + _HEAD.size, v6=bool(sys_flag & _BORN_V6))
        stored = int.from_bytes(data[at : at + 8], "big")
        store_host_at = at + 8
        store_host, at = _host(data, store_host_at, v6=bool(sys_flag & _STORED_V6))
        reconsumed, prepared, body_size = struct.unpack_from(">iqi", data, at)
        at += 16
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
    compression = compression_of(sys_flag)
    message = ReceivedMessage(
        topic=topic,
        queue_id=queue_id,
        queue_offset=queue_offset,
        body=body if compression is None else decompress(body, compression),
        properties=decode_properties(data[topic_end + 2 : properties_end]),
        flag=flag,
        sys_flag=sys_flag,
        born_timestamp=born,
        born_host=born_host,
        store_timestamp=stored,
        store_host=store_host,
        physical_offset=physical,
        reconsume_times=reconsumed,
        prepared_transaction_offset=prepared,
        body_crc=crc,
        store_size=size,
        stored_body_size=len(body),
        broker_name=broker_name,
        offset_message_id=_place(data, store_host_at, physical, v6=bool(sys_flag & _STORED_V6)),
    )
    return message, end


def _host(data: bytes, at: int, *, v6: bool) -> tuple[str, int]:
    size = 16 if v6 else 4
    host = socket.inet_ntop(socket.AF_INET6 if v6 else socket.AF_INET, data[at : at + size])
    (port,) = struct.unpack_from(">i", data, at + size)
    return (f"[{host}]:{port}" if v6 else f"{host}:{port}"), at + size + 4


def _place(data: bytes, host_at: int, physical: int, *, v6: bool) -> str:
    size = 16 if v6 else 4
    (port,) = struct.unpack_from(">i", data, host_at + size)
    return offset_id(data[host_at : host_at + size], port, physical)
