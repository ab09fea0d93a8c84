"""Requests about messages: offsets of queues, queries by key and id, pulls that commit nothing.

RocketMQ's source: client/impl/MQAdminImpl.java, client/impl/consumer/PullAPIWrapper.java,
common/sysflag/PullSysFlag.java.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow.client.admin.topic_requests import TopicRequests
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.client.skipped import SkippedMessages, skipped_spans
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import offset as headers
from rocketflow.remoting.headers.pull import (
    PullMessageRequestHeader,
    PullMessageResponseHeader,
    QueryMessageRequestHeader,
    UniqueKeyQueryRequestHeader,
    ViewMessageRequestHeader,
)
from rocketflow_store.spi.ids import decode_offset_msg_id
from rocketflow_store.spi.messages import ReceivedMessage, decode_records

if TYPE_CHECKING:
    from rocketflow.remoting.bodies import MessageQueue

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
"""The group of RocketMQ's own tools, which every broker has."""

_SUSPEND: Final = 2
_HAS_SUBSCRIPTION: Final = 4
_MORE_THAN_WAIT_S: Final = 10.0
_LATEST_MS: Final = 2**63 - 1
_ROUNDED_MS: Final = 999
"""Brokers compare times with whole seconds of their index, which may be this much earlier than a message's."""
_MOST_FOUND: Final = 64
"""The most messages that a broker of Apache's returns to a query."""


class NoMessageError(ClientError):
    """No broker has the message that was asked for."""


class PullResult(NamedTuple):
    """Messages of a queue, the offset to read next, and the queue's offsets [min, max)."""

    status: PullStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class MessageRequests(TopicRequests):
    """Requests about messages. All raise ClientError, RequestRefusedError where a server refuses them."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of a queue gets."""
        header = headers.GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        reply = await self.cluster.request(await self.address_of(queue), RequestCode.GET_MAX_OFFSET, header)
        return reply.header(headers.GetMaxOffsetResponseHeader).offset

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the first message of a queue that is stored still.

        Brokers answer -1 for a queue of a BatchCQ topic that never had a message.
        """
        header = headers.GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id)
        reply = await self.cluster.request(await self.address_of(queue), RequestCode.GET_MIN_OFFSET, header)
        return max(reply.header(headers.GetMinOffsetResponseHeader).offset, 0)

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Return the offset of the first message of a queue that was stored at a time or after it."""
        address = await self.address_of(queue)
        return await self.search_offset_at(address, queue.topic, queue.queue_id, max(timestamp_ms, 0))

    async def search_offset_at(self, address: str, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the offset of a broker's first message of a queue stored at a time or after it, -1 for its end."""
        if timestamp_ms < 0:
            end = headers.GetMaxOffsetRequestHeader(topic=topic, queue_id=queue_id)
            reply = await self.cluster.request(address, RequestCode.GET_MAX_OFFSET, end)
            return reply.header(headers.GetMaxOffsetResponseHeader).offset
        header = headers.SearchOffsetRequestHeader(topic=topic, queue_id=queue_id, timestamp=timestamp_ms)
        reply = await self.cluster.request(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
        return reply.header(headers.SearchOffsetResponseHeader).offset

    async def query_by_key(
        self, topic: str, key: str, *, max_count: int = 64, begin_ms: int = 0, end_ms: int = _LATEST_MS
    ) -> list[ReceivedMessage]:
        """Return messages of a topic with a key, stored within [begin_ms, end_ms], the oldest first.

        Each broker answers at most `max_count`, Apache's no more than 64: the newest ones.
        """
        asked = max_count if end_ms == _LATEST_MS else max(max_count, _MOST_FOUND)  # those after the end count too
        found = await self._query(
            QueryMessageRequestHeader(
                topic=topic,
                key=key,
                max_num=asked,
                begin_timestamp=max(begin_ms - _ROUNDED_MS, 0),
                end_timestamp=end_ms,
            )
        )
        kept: list[ReceivedMessage] = []
        count: Counter[str] = Counter()
        for one in reversed(found):
            has_key = key in one.keys or key == one.properties.get("UNIQ_KEY")
            if has_key and begin_ms <= one.store_timestamp <= end_ms and count[one.broker_name] < max_count:
                kept.append(one)
                count[one.broker_name] += 1
        return kept[::-1]

    async def query_by_unique_key(self, topic: str, unique_key: str) -> list[ReceivedMessage]:
        """Return the messages of a topic with a UNIQ_KEY, the oldest first; a resend may have stored it twice."""
        found = await self._query(
            UniqueKeyQueryRequestHeader(
                topic=topic, key=unique_key, max_num=32, begin_timestamp=0, end_timestamp=_LATEST_MS
            )
        )
        return [one for one in found if one.properties.get("UNIQ_KEY") == unique_key]

    async def message_at(self, offset_message_id: str) -> ReceivedMessage:
        """Return the message with an offset id, which names its broker's address and its place in the CommitLog."""
        address, physical_offset = decode_offset_msg_id(offset_message_id)
        header = ViewMessageRequestHeader(offset=physical_offset)
        reply = await self.cluster.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
        if reply.code == ResponseCode.SYSTEM_ERROR:
            raise NoMessageError(f"{address}: no message begins at {physical_offset}: {reply.remark}")
        if reply.code != ResponseCode.SUCCESS:
            raise RequestRefusedError(address, RequestCode.VIEW_MESSAGE_BY_ID, reply.code, reply.remark)
        return next(decode_records(reply.body))

    async def pull(
        self, queue: MessageQueue, offset: int, *, max_count: int = 32, expression: str = "*", wait_s: float = 0.0
    ) -> PullResult:
        """Read messages of a queue from an offset on, of no group's progress; `expression` is one of tags.

        With `wait_s` the broker waits that long for a message if there is none. Messages that it skips are logged.
        """
        header = PullMessageRequestHeader(
            consumer_group=TOOLS_GROUP,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_count,
            sys_flag=_HAS_SUBSCRIPTION | (_SUSPEND if wait_s else 0),
            commit_offset=0,
            suspend_timeout_millis=int(wait_s * 1000),
            subscription=expression,
            sub_version=int(time.time() * 1000),
            expression_type="TAG",
        )
        address = await self.address_of(queue)
        reply = await self.cluster.ask(address, RequestCode.PULL_MESSAGE, header, timeout_s=wait_s + _MORE_THAN_WAIT_S)
        try:
            status = PullStatus(reply.code)
        except ValueError:
            raise RequestRefusedError(address, RequestCode.PULL_MESSAGE, reply.code, reply.remark) from None
        bounds = reply.header(PullMessageResponseHeader)
        for one in skipped_spans(bounds.skipped_messages):
            SkippedMessages(queue, *one).log()
        messages = list(decode_records(reply.body, queue.broker_name)) if status is PullStatus.FOUND else []
        return PullResult(status, messages, bounds.next_begin_offset, bounds.min_offset, bounds.max_offset)

    async def address_of(self, queue: MessageQueue) -> str:
        """Return the address of a queue's broker, a slave's if it has no master. Raises NoRouteError."""
        await self.cluster.route(queue.topic)
        return self.cluster.broker_address(queue.broker_name, or_any=True)

    async def _query(self, header: QueryMessageRequestHeader) -> list[ReceivedMessage]:
        addresses = {
            one.broker_name: one.broker_addrs[min(one.broker_addrs, key=int)]
            for one in (await self.route(header.topic)).broker_datas
            if one.broker_addrs
        }
        replies = await asyncio.gather(
            *(self.cluster.ask(one, RequestCode.QUERY_MESSAGE, header) for one in addresses.values())
        )
        found: list[ReceivedMessage] = []
        for (name, address), reply in zip(addresses.items(), replies):
            if reply.code == ResponseCode.SUCCESS:
                found += decode_records(reply.body, name)
            elif reply.code != ResponseCode.QUERY_NOT_FOUND:
                raise RequestRefusedError(address, RequestCode.QUERY_MESSAGE, reply.code, reply.remark)
        return sorted(found, key=lambda one: (one.store_timestamp, one.broker_name, one.physical_offset))
