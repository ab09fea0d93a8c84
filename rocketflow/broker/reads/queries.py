"""Queries: messages by key, and one message by its place in the log.

RocketMQ's source: broker/processor/QueryMessageProcessor.java.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import READ, SUBSCRIBE, Action, client_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.pull import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rocketflow_store.spi.names import PROPERTY_UNIQ_KEY

if TYPE_CHECKING:
    from rocketflow.broker.operators import Access
    from rocketflow_store.spi.broker import QueryResult, WritingStore

MAX_COUNT: Final = 64
MAX_BYTES: Final = 32 * 1024 * 1024

UNIQ_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"


class Queries:
    """Requests 12 and 33."""

    def __init__(self, store: WritingStore, access: Access) -> None:
        self._store = store
        self._access = access

    @serves(RequestCode.QUERY_MESSAGE, client_row(topic_of(Action.SUB, Action.GET), record=SUBSCRIBE))
    async def by_key(self, request: Request) -> None:
        """Answer the messages of a topic with a key (request 12)."""
        header = request.command.header(QueryMessageRequestHeader)
        by_uniq_key = request.command.fields.get(UNIQ_KEY_QUERY) == "true"
        not_found = RefusedError(ResponseCode.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
        if header.max_num <= 0:
            raise not_found
        found = await asyncio.to_thread(
            self._store.query_records,
            *(header.topic, header.key, min(header.max_num, MAX_COUNT)),
            *(max(0, header.begin_timestamp), header.end_timestamp, MAX_BYTES),
        )
        body = _with_uniq_key(found, header.key) if by_uniq_key else found.data
        if not body:
            raise not_found
        self._access.check_pulled(request, header.topic, body)
        answer = QueryMessageResponseHeader(
            index_last_update_timestamp=found.index_end_ms, index_last_update_phyoffset=found.index_end_phy_offset
        )
        request.reply(header=answer, body=body)

    @serves(RequestCode.VIEW_MESSAGE_BY_ID, client_row(topic_of(Action.GET, optional=True), record=READ))
    async def by_place(self, request: Request) -> None:
        """Answer the record that begins at an offset of the log (request 33)."""
        header = request.command.header(ViewMessageRequestHeader)
        record = await asyncio.to_thread(self._store.read_record, header.offset)
        if record is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
        self._access.check_record(request, record)
        request.reply(body=record)


def _with_uniq_key(found: QueryResult, key: str) -> bytes:
    """Return the records whose UNIQ_KEY is the key; an index entry may be one of KEYS."""
    mark = f"{PROPERTY_UNIQ_KEY}\x01{key}\x02".encode()
    records = []
    begin = 0
    for size in found.sizes:
        record = found.data[begin : begin + size]
        if mark in record:
            records.append(record)
        begin += size
    return b"".join(records)
