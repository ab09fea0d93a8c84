"""Records as the messages that were put, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rocketflow_store.format.record import (
    AFTER_PLACE,
    PROPERTY_CRC_SIZE,
    SYS_FLAG_AT,
    RecordFields,
    encode_record,
    frame_record,
    has_record_crc,
)
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.broker_requests import RawMessage, StoredMessage
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG

_NOTHING_ELSE: Final = tuple(RawMessage._field_defaults.values())[2:]
"""What a record does not say of a message."""


def decode_stored(record: bytes | bytearray | memoryview) -> StoredMessage:
    """Return the message of a checked record; its body stays as it is stored.

    Raises:
        CorruptRecordError: The record's lengths do not fit together.
    """
    view = memoryview(record).cast("B")
    parts = None if COMPILED is None else COMPILED.stored_parts(view)
    if parts is not None:
        message, *place = parts
        return StoredMessage(RawMessage._make((*message, *_NOTHING_ELSE)), *place)
    frame = frame_record(view)
    sizes = (20 if frame.sys_flag & BORN_HOST_V6_FLAG else 8, 20 if frame.sys_flag & STORE_HOST_V6_FLAG else 8)
    _, _, born_host, store_ms, store_host, reconsume_times, prepared, _ = AFTER_PLACE[sizes].unpack_from(
        view, SYS_FLAG_AT
    )
    end = frame.end - (PROPERTY_CRC_SIZE if has_record_crc(view, frame) else 0)
    message = RawMessage(
        topic=bytes(view[frame.topic_start : frame.topic_end]).decode(),
        queue_id=frame.queue_id,
        body=bytes(view[frame.body_start : frame.body_end]),
        properties=bytes(view[frame.topic_end + 2 : end]),
        flag=frame.flag,
        sys_flag=frame.sys_flag,
        born_ms=frame.born_timestamp,
        born_host=born_host,
        reconsume_times=reconsume_times,
        prepared_offset=prepared,
    )
    return StoredMessage(message, frame.queue_offset, frame.phy_offset, store_ms, store_host)


def stored_messages(data: bytes | bytearray | memoryview) -> Iterator[StoredMessage]:
    """Yield the messages of checked records that lie one after the other."""
    view = memoryview(data)
    begin = 0
    while begin < len(view):
        end = begin + int.from_bytes(view[begin : begin + 4], "big")
        yield decode_stored(view[begin:end])
        begin = end


def encode_stored(stored: StoredMessage) -> bytes:
    """Return the record of a stored message, without a record CRC."""
    message = stored.message
    fields = RecordFields(
        *(message.topic.encode(), message.queue_id, message.body, message.properties, message.flag, message.sys_flag),
        *(message.born_ms, message.born_host, stored.store_host, message.reconsume_times, message.prepared_offset),
    )
    return encode_record(fields, stored.phy_offset, stored.queue_offset, stored.store_ms)
