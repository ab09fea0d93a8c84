"""Messages that a consumer could not handle: to the group's retry topic, or to its dead letters.

RocketMQ's source: broker/processor/AbstractSendMessageProcessor.java (consumerSendMsgBack).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketflow.access.permissions import SUBSCRIBE, Action, client_row, group_of, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.puts.sends import MAX_RECONSUME_SINCE
from rocketflow.broker.topics import DLQ_QUEUES
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rocketflow_store import PutMessageStatus, StoreError
from rocketflow_store.spi.broker import SendBack, send_back
from rocketflow_store.spi.names import DLQ_PREFIX, PERM_WRITE, RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import RawMessage, WritingStore
    from rocketflow_store.spi.table_rows import SubscriptionGroupConfig


class SendBacks:
    """Request 36."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        tables: Tables,
        gatherer: PutGatherer,
        counts: MessageCounts,
        access: Access,
    ) -> None:
        self._access = access
        self._counts = counts
        self._store = store
        self._gatherer = gatherer
        self._topics, self._groups = tables.topics, tables.groups
        self._settings = settings

    @serves(
        RequestCode.CONSUMER_SEND_MSG_BACK,
        client_row(
            group_of(Action.SUB, field="group"),
            topic_of(Action.SUB, field="originTopic", optional=True),
            record=SUBSCRIBE,
        ),
    )
    async def send_back(self, request: Request) -> None:
        """Put a copy of the message into the retry or dead-letter topic of the group."""
        header = request.command.header(ConsumerSendMsgBackRequestHeader)
        record = await asyncio.to_thread(self._record, header.offset)
        if record is not None:
            self._access.check_record(request, record)
        group = await self._groups.for_use(header.group)
        if group is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group}"
            )
        if not self._settings.broker_permission & PERM_WRITE:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"the broker[{self._settings.broker_ip1}] sending message is forbidden"
            )
        if group.retry_queue_nums <= 0:
            request.reply()
            return
        topic = await self._topics.ensure(
            f"{RETRY_PREFIX}{header.group}", group.retry_queue_nums, is_unit=header.unit_mode
        )
        if not topic.perm & PERM_WRITE:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"the topic[{topic.topic_name}] sending message is forbidden"
            )
        most = header.max_reconsume_times if request.command.version >= MAX_RECONSUME_SINCE else None
        wanted = SendBack(header.group, header.delay_level, most)
        message = self._copy(header.offset, record, wanted, group)
        if message is None:
            request.reply()
            return
        if message.topic.startswith(DLQ_PREFIX):
            await self._topics.ensure(message.topic, DLQ_QUEUES)

        def stored(result: PutMessageResult) -> None:
            if result.status is PutMessageStatus.PUT_OK:
                is_dead = message.topic.startswith(DLQ_PREFIX)
                self._counts.sent_back(header.origin_topic or message.topic, header.group, is_dead=is_dead)
                request.reply()
            else:
                request.reply(ResponseCode.SYSTEM_ERROR, remark=result.status.name)

        self._gatherer.add(message, stored, request.refuse)

    def _record(self, phy_offset: int) -> bytes | None:
        """Return the record at an offset of the log, None if there is none. Blocks. Raises RefusedError."""
        try:
            return self._store.read_record(phy_offset)
        except StoreError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None

    def _copy(
        self, phy_offset: int, record: bytes | None, wanted: SendBack, group: SubscriptionGroupConfig
    ) -> RawMessage | None:
        """Return the message to store for a record. Raises RefusedError."""
        if record is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {phy_offset}")
        try:
            return send_back(record, wanted, group, len(self._store.config.delay_levels_ms))
        except StoreError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, str(error)) from None
