"""The messages of an inner batch that a get returned as one; `columnar.inner_batches` does it for many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.format.batch_body import decode_batch_body
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.model.java_compat import crc32
from rocketflow_store.model.system_flags import COMPRESSED_FLAG, INNER_BATCH_FLAG, NEED_UNWRAP_FLAG

if TYPE_CHECKING:
    from rocketflow_store.model.message import MessageExt

_WRAPPED: Final = INNER_BATCH_FLAG | NEED_UNWRAP_FLAG


def inner_messages(message: MessageExt) -> list[MessageExt]:
    """Return `message` itself, or the messages in it, as a client does; raise BadBodyError for an invalid batch.

    Body, flag and properties are each message's own, the queue offset counts up, the rest is the record's.
    """
    if message.sys_flag & _WRAPPED != _WRAPPED:
        return [message]
    try:
        entries = decode_batch_body(message.body)
    except ValueError as error:
        raise message.bad_body(str(error)) from error
    return [
        replace(
            message,
            queue_offset=message.queue_offset + number,
            stored_body=entry.body,
            sys_flag=message.sys_flag & ~COMPRESSED_FLAG,
            flag=entry.flag,
            body_crc=crc32(entry.body),
            properties=decode_properties(entry.properties),
        )
        for number, entry in enumerate(entries)
    ]
