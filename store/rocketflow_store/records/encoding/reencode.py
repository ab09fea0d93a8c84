"""Records with another topic or other properties: what a broker answers instead of the stored record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE, decode_properties, encode_properties
from rocketflow_store.format.record import (
    MAGIC_V1,
    MAGIC_V2,
    MAX_V1_TOPIC_SIZE,
    PROPERTY_CRC_SIZE,
    SIZE_AND_MAGIC,
    content_fault,
    frame_record,
    has_record_crc,
    property_crc_tail,
)
from rocketflow_store.model.errors import CorruptRecordError, MessageRejectedError
from rocketflow_store.model.status import PutMessageStatus

if TYPE_CHECKING:
    from collections.abc import Mapping


def reencode(record: bytes, *, topic: str | None = None, properties: Mapping[str, str | None] | None = None) -> bytes:
    """Return a record with another topic (None: its own) and changed properties (a value None removes one).

    Offsets, times, hosts, sysFlag and body stay; a CRC of the whole record is computed anew.

    Raises:
        CorruptRecordError: The record is damaged.
        MessageRejectedError: The properties do not fit into a record.
    """
    frame = frame_record(record)
    fault = content_fault(record, frame)
    if fault is not None:
        raise CorruptRecordError("record", frame.phy_offset, fault)
    with_crc = has_record_crc(record, frame)
    raw = bytes(record[frame.topic_end + 2 : frame.end - (PROPERTY_CRC_SIZE if with_crc else 0)])
    if properties:
        merged = {**decode_properties(raw), **properties}
        try:
            raw = encode_properties({name: value for name, value in merged.items() if value is not None})
        except ValueError as error:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, str(error)) from error
    name = bytes(record[frame.topic_start : frame.topic_end]) if topic is None else topic.encode()
    size = len(raw) + (PROPERTY_CRC_SIZE if with_crc else 0)
    if size > MAX_PROPERTIES_SIZE:
        why = f"properties of {size} bytes, at most {MAX_PROPERTIES_SIZE} are allowed"
        raise MessageRejectedError(PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, why)
    is_short = len(name) <= MAX_V1_TOPIC_SIZE
    tail = len(name).to_bytes(1 if is_short else 2, "big") + name + size.to_bytes(2, "big") + raw
    total = frame.body_end - frame.position + len(tail) + size - len(raw)
    head = SIZE_AND_MAGIC.pack(total, MAGIC_V1 if is_short else MAGIC_V2)
    out = head + record[frame.position + len(head) : frame.body_end] + tail
    return out + property_crc_tail(out) if with_crc else out
