"""The messages of an inner batch, one record whose body is a batch; `records.decoding` does it for many.

RocketMQ's source: common/message/MessageDecoder.java (decodeMessage), client/impl/consumer/PullAPIWrapper.java.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rocketflow_store.format.batch_body import batch_entries
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import decode_records
from rocketflow_store.model.errors import DamagedBodyError
from rocketflow_store.model.java_compat import crc32
from rocketflow_store.model.system_flags import COMPRESSED_FLAG, WRAPPED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow_store.model.message import ReceivedMessage


def inner_messages(message: ReceivedMessage) -> list[ReceivedMessage]:
    """Return `message` itself, or the messages in it, as a client does; raise DamagedBodyError for an invalid batch.

    Body, flag and properties are each message's own, the queue offset counts up, the rest is the record's.
    """
    if message.sys_flag & WRAPPED != WRAPPED:
        return [message]
    try:
        entries = batch_entries(message.body)
    except ValueError as error:
        raise message.damaged_body(str(error)) from error
    return [
        replace(
            message,
            queue_offset=message.queue_offset + number,
            stored_body=body,
            sys_flag=message.sys_flag & ~COMPRESSED_FLAG,
            flag=flag,
            body_crc=crc32(body),
            properties=decode_properties(properties),
        )
        for number, (flag, body, properties) in enumerate(entries)
    ]


def messages_in(message: ReceivedMessage) -> list[ReceivedMessage]:
    """Return `inner_messages`, or for an invalid batch the message itself, whose `body_error` says why."""
    try:
        return inner_messages(message)
    except DamagedBodyError as error:
        return [replace(message, body_fault=error.reason)]


def received_messages(data: bytes, broker_name: str = "") -> Iterator[ReceivedMessage]:
    """Yield the messages of an answer's body, those of inner batches each.

    A batch that cannot be read is one message and does not hide those after it. Raises as `decode_records`.
    """
    for record in decode_records(data, broker_name):
        yield from messages_in(record)
