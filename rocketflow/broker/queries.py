"""Queries: messages by key, and one message by its place in the log.

RocketMQ's source: broker/processor/QueryMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.pull import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketflow_store.spi.names import PROPERTY_UNIQ_KEY

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

MAX_COUNT: Final = 64
MAX_BYTES: Final = 32 * 1024 * 1024

UNIQ_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


class Queries:
    """Requests 12 and 33."""

    def __init__(self, store: WritingStore) -> None:
        self._store = store

    async def by_key(self, request: Request) -> None:
        """Answer the messages of a topic with a key (request 12)."""
        header = request.command.header(QueryMessageRequestHeader)
        by_uniq_key = request.command.fields.get(UNIQ_KEY_QUERY) == "true"
        body, last_ms, last_offset = await asyncio.to_thread(self._records, header, by_uniq_key)
        if not body:
            raise RefusedError(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=last_ms, index_last_update_phyoffset=last_offset
        )
        request.reply(header=answer, body=body)

    def _records(self, header: QueryMessageRequestHeader, by_uniq_key: bool) -> tuple[bytes, int, int]:
        count = max(1, min(header.max_num, MAX_COUNT))
        found = self._store.query_message(
            header.topic, header.key, count, max(0, header.begin_timestamp), header.end_timestamp
        )
        if by_uniq_key:
            found = [one for one in found if one.properties.get(PROPERTY_UNIQ_KEY) == header.key]
        records: list[bytes] = []
        size = 0
        for one in found:
            record = _record_at(self._store, one.phy_offset)
            if record is not None and (not records or size + len(record) <= MAX_BYTES):
                records.append(record)
                size += len(record)
        last = max(found, key=lambda one: one.phy_offset, default=None)
        return b"".join(records), last.store_timestamp if last else 0, last.phy_offset if last else 0

    async def by_place(self, request: Request) -> None:
        """Answer the record that begins at an offset of the log (request 33)."""
        header = request.command.header(ViewMessageRequestHeader)
        record = await asyncio.to_thread(_record_at, self._store, header.offset)
        if record is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        request.reply(body=record)


def _record_at(store: WritingStore, phy_offset: int) -> bytes | None:
    """Return the record that begins at an offset of the log, as it is stored; None if none does. Blocks."""
    message = store.look_message_by_offset(phy_offset)
    held = None if message is None else store.log.hold(phy_offset)
    if message is None or held is None:
        return None
    try:
        frame = store.log.frame_in(held, phy_offset, message.store_size)
        return bytes(held.view[frame.position : frame.end])
    finally:
        held.release()
