"""Messages that a consumer could not handle: to the group's retry topic, or to its dead letters.

RocketMQ's source: broker/processor/AbstractSendMessageProcessor.java (consumerSendMsgBack).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rocketflow.aio.server import RefusedError, Request
from rocketflow.broker.sends import MAX_RECONSUME_SINCE
from rocketflow.broker.topics import PERM_WRITE, RETRY_PREFIX
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.send import ConsumerSendMsgBackRequestHeader
from rocketflow_store import MessageNotFoundError, PutMessageStatus, StoreError
from rocketflow_store.spi.delivery import consumer_send_msg_back

if TYPE_CHECKING:
    from rocketflow.broker.groups import Groups
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore


class SendBacks:
    """Request 36."""

    def __init__(self, store: WritingStore, topics: Topics, groups: Groups, settings: BrokerSettings) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._settings = settings

    async def send_back(self, request: Request) -> None:
        """Put a copy of the message into the retry or dead-letter topic of the group."""
        header = request.command.header(ConsumerSendMsgBackRequestHeader)
        group = self._groups.for_use(header.group)
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
        topic = self._topics.ensure(f"{RETRY_PREFIX}{header.group}", group.retry_queue_nums, is_unit=header.unit_mode)
        if not topic.perm & PERM_WRITE:
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"the topic[{topic.topic_name}] sending message is forbidden"
            )
        most = header.max_reconsume_times if request.command.version >= MAX_RECONSUME_SINCE else None
        try:
            result = await asyncio.to_thread(
                consumer_send_msg_back, self._store, header.group, header.offset, header.delay_level, most
            )
        except MessageNotFoundError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {error}") from None
        except StoreError as error:
            raise RefusedError(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from None
        if result is not None and result.status is not PutMessageStatus.PUT_OK:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, result.status.name)
        request.reply()
