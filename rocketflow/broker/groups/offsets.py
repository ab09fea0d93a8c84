"""Offsets: how far groups have read, and where queues begin and end.

RocketMQ's source: broker/offset/ConsumerOffsetManager.java, broker/processor/ConsumerManageProcessor.java,
AdminBrokerProcessor.java (getMaxOffset, getMinOffset, searchOffsetByTimestamp, getEarliestMsgStoretime).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import Action, client_row, group_of, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import offset as headers
from rocketflow_store import StoreError, WouldBlockError

if TYPE_CHECKING:
    from rocketflow.broker.groups.groups import Groups
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore
    from rocketflow_store.spi.table_rows import TopicConfig

LOG: Final = logging.getLogger("rocketflow.broker")


def least_offset(topic: TopicConfig | None, begin: int, end: int) -> int:
    """Return the begin of a queue for clients: -1, as in RocketMQ, for a BatchCQ topic's that never had a message."""
    return -1 if not end and topic is not None and topic.is_batch_cq else begin


class GroupOffsets:
    """Next offsets of groups: the store's table, searched by group and by topic; those of next pulls, in memory."""

    def __init__(self, store: WritingStore) -> None:
        self._table = store.offset_table
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        """Where the next pull of a queue begins, by (topic, group) and queue."""

    def get(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the next offset of a queue, None if the group has committed none."""
        return self._table.query(group, topic, queue_id)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the next offset of a queue."""
        self._table.commit(group, topic, queue_id, offset)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set the next offset of a queue for an operator; members keep to it from their next pull on."""
        self._table.reset(group, topic, {queue_id: offset})

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset waits for the next pull of a queue."""
        return self._table.has_reset(group, topic, queue_id)

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that an operator has set since the last pull of a queue, once."""
        return self._table.take_reset(group, topic, queue_id)

    def pulled(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Take note that a pull of a queue was answered: the next one begins at `next_offset`."""
        offsets = self._pulled.get((topic, group))
        if offsets is None:
            offsets = self._pulled[topic, group] = {}
        offsets[queue_id] = next_offset

    def pull_offsets(self, group: str, topic: str) -> Mapping[int, int]:
        """Return where the next pulls of a group begin, by queue; queues not pulled since the start are not in it.

        It may be read from any thread by its keys; iterate over a copy.
        """
        return self._pulled.get((topic, group), {})

    def delete_group(self, group: str) -> None:
        """Remove the offsets of a group."""
        self._table.delete_group(group)
        self._pulled = {key: one for key, one in self._pulled.items() if key[1] != group}

    def topic_deleted(self, topic: str) -> None:
        """Forget where a topic was pulled; the store has removed the other offsets with the topic."""
        self._pulled = {key: one for key, one in self._pulled.items() if key[0] != topic}

    def of(self, group: str, topic: str) -> dict[int, int]:
        """Return the next offsets of a group's queues of a topic."""
        return self._table.of(group, topic)

    def of_group(self, group: str) -> dict[str, dict[int, int]]:
        """Return the next offsets of a group by topic and queue."""
        return self._table.of_group(group)

    def all(self) -> dict[tuple[str, str], dict[int, int]]:
        """Return a copy of all next offsets, by (topic, group) and queue."""
        return self._table.items()

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return all next offsets in RocketMQ's spelling: topic@group -> queue -> offset."""
        return {
            f"{topic}@{group}": {str(queue_id): offset for queue_id, offset in offsets.items()}
            for (topic, group), offsets in self._table.items().items()
        }

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that have committed an offset of a topic."""
        return self._table.groups_of(topic)

    async def save(self) -> None:
        """Write the changes, in a thread; they stay for the next time if that fails. Raises StoreError."""
        await asyncio.to_thread(self._table.save)

    async def save_every(self, seconds: float) -> None:
        """Save until cancelled; a failure is logged and tried again."""
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.save()
            except StoreError as error:
                LOG.warning("offsets of groups are not saved: %s", error)


class OffsetRequests:
    """Requests about offsets."""

    def __init__(self, store: WritingStore, offsets: GroupOffsets, topics: Topics, groups: Groups) -> None:
        self._store = store
        self._offsets, self._topics, self._groups = offsets, topics, groups

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
