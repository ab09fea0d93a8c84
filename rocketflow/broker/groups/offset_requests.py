"""Requests about offsets: how far groups have read, and where queues begin and end.

RocketMQ's source: broker/processor/ConsumerManageProcessor.java, AdminBrokerProcessor.java (getMaxOffset, getMinOffset,
searchOffsetByTimestamp, getEarliestMsgStoretime).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from rocketflow.access.permissions import Action, client_row, group_of, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.groups.offsets import least_offset
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import offset as headers
from rocketflow_store import WouldBlockError

if TYPE_CHECKING:
    from rocketflow.broker.groups.tables import Tables
    from rocketflow_store.spi.broker import WritingStore


class OffsetRequests:
    """Requests about offsets."""

    def __init__(self, store: WritingStore, tables: Tables) -> None:
        self._store = store
        self._offsets, self._topics, self._groups = tables.offsets, tables.topics, tables.groups

    @serves(
        RequestCode.QUERY_CONSUMER_OFFSET,
        client_row(topic_of(Action.SUB, Action.GET), group_of(Action.SUB, Action.GET)),
    )
    def query(self, request: Request) -> None:
        """Answer how far a group has read a queue (request 14).

        A group that has committed nothing begins at 0 if the queue does and the message at 0 is in memory, as in
        RocketMQ 5; else its client decides.
        """
        header = request.command.header(headers.QueryConsumerOffsetRequestHeader)
        offset = self._offsets.get(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            if header.set_zero_if_not_found is False or not self._begins_in_memory(header.topic, header.queue_id):
                raise RefusedError(
                    ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
                )
            offset = 0
        request.reply(header=headers.QueryConsumerOffsetResponseHeader(offset=offset))

    def _begins_in_memory(self, topic: str, queue_id: int) -> bool:
        if self._store.min_offset(topic, queue_id) > 0:
            return False
        try:
            return self._store.read_messages(topic, queue_id, 0, 1, 1, nowait=True).count > 0
        except WouldBlockError:
            return False

    @serves(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        client_row(topic_of(Action.SUB, Action.UPDATE), group_of(Action.SUB, Action.UPDATE), of_jobs=True),
    )
    def update(self, request: Request) -> Coroutine[Any, Any, None] | None:
        """Take how far a group has read a queue (request 15)."""
        header = request.command.header(headers.UpdateConsumerOffsetRequestHeader)
        return self._groups.once_known(header.consumer_group, self._update, request, header)

    def _update(self, request: Request, header: headers.UpdateConsumerOffsetRequestHeader) -> None:
        if self._groups.get(header.consumer_group) is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"group {header.consumer_group} not exist")
        topic = self._topics.get(header.topic)
        if topic is None:
            raise RefusedError(ResponseCode.TOPIC_NOT_EXIST, f"topic {header.topic} not exist")
        if header.commit_offset < 0:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"no offset: {header.commit_offset}")
        if not 0 <= header.queue_id < max(topic.read_queue_nums, topic.write_queue_nums):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"topic {header.topic} has no queue {header.queue_id}")
        if self._offsets.is_reset(header.consumer_group, header.topic, header.queue_id):
            request.reply(remark="Offset has been previously reset")
            return
        self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        request.reply()

    @serves(RequestCode.GET_MAX_OFFSET, client_row(topic_of(Action.GET)))
    def end(self, request: Request) -> None:
        """Answer where a queue ends (request 30)."""
        header = request.command.header(headers.GetMaxOffsetRequestHeader)
        if header.committed:
            _, offset = self._store.bounds(header.topic, header.queue_id)
        else:
            offset = self._store.appended_end(header.topic, header.queue_id)
        request.reply(header=headers.GetMaxOffsetResponseHeader(offset=offset))

    @serves(RequestCode.GET_MIN_OFFSET, client_row(topic_of(Action.GET)))
    def begin(self, request: Request) -> None:
        """Answer where a queue begins (request 31)."""
        header = request.command.header(headers.GetMinOffsetRequestHeader)
        begin, end = self._store.bounds(header.topic, header.queue_id)
        offset = least_offset(self._topics.get(header.topic), begin, end)
        request.reply(header=headers.GetMinOffsetResponseHeader(offset=offset))

    @serves(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, client_row(topic_of(Action.GET)))
    async def search(self, request: Request) -> None:
        """Answer the offset at a store time (request 29)."""
        header = request.command.header(headers.SearchOffsetRequestHeader)
        boundary = (header.boundary_type or "LOWER").lower()
        if boundary not in ("lower", "upper"):
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"boundaryType {header.boundary_type} is unknown")
        offset = await asyncio.to_thread(
            self._store.get_offset_in_queue_by_time, header.topic, header.queue_id, header.timestamp, boundary
        )
        request.reply(header=headers.SearchOffsetResponseHeader(offset=offset))

    @serves(RequestCode.GET_EARLIEST_MSG_STORETIME, client_row(topic_of(Action.GET)))
    async def earliest(self, request: Request) -> None:
        """Answer the store time of a queue's first message, -1 if there is none (request 32)."""
        header = request.command.header(headers.GetEarliestMsgStoretimeRequestHeader)
        begin, _ = self._store.bounds(header.topic, header.queue_id)
        times = await asyncio.to_thread(self._store.stored_times, header.topic, {header.queue_id: begin})
        timestamp = times.get(header.queue_id, -1)
        request.reply(header=headers.GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))
