"""Requests of operators that members of a consumer group answer: their state, their offsets, a message to consume.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (callConsumer), broker/client/net/Broker2Client.java
(getConsumeStatus).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rocketflow.access.permissions import READ, Action, change_row, group_of, read_row, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.channel import ChannelError
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting.bodies import MessageQueue, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.errors import BodyError
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
)

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.groups.clients import Client, ConsumerTable
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.remoting.command import Command
    from rocketflow.remoting.headers.header import Header
    from rocketflow_store.spi.broker import WritingStore

LOG: Final = logging.getLogger("rocketflow.broker")

CALL_SECONDS: Final = 10.0
"""The time that a member of a group may take for its answer."""

STATUS_SECONDS: Final = 5.0
"""The same for its offsets: members that do not answer are omitted."""

MESSAGE_ID_OFFSET_DIGITS: Final = 16
"""A message id ends with the offset in the log, in hexadecimal digits."""


class MemberCalls:
    """Requests 223, 307 and 309."""

    def __init__(
        self, store: WritingStore, settings: BrokerSettings, consumers: ConsumerTable[Channel], access: Access
    ) -> None:
        self._access = access
        self._store = store
        self._consumers = consumers
        self._settings = settings

    def _members(self, group_name: str) -> list[Client[Channel]]:
        group = self._consumers.get(group_name)
        return [] if group is None else list(group.clients.values())

    @serves(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        read_row(topic_of(Action.GET), group_of(Action.GET, field="group")),
    )
    async def _get_status(self, request: Request) -> None:
        """Answer the next offsets of a topic's queues as the members know them (request 223)."""
        header = request.command.header(GetConsumerStatusRequestHeader)
        members = self._members(header.group)
        if not members:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        wanted = [one for one in members if header.client_addr in (None, "", one.client_id)]
        own = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)
        answers = await asyncio.gather(*(self._status_of(one, own) for one in wanted))
        table = {one.client_id: found for one, found in zip(wanted, answers, strict=True) if found is not None}
        request.reply(body=encode_body({"consumerTable": table, "messageQueueTable": {}}))

    async def _status_of(self, member: Client[Channel], header: Header) -> msgspec.Raw | None:
        try:
            answer = await member.channel.request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header, timeout_s=STATUS_SECONDS
            )
            return _queue_offsets(answer) if answer.code == ResponseCode.SUCCESS else None
        except (TimeoutError, ChannelError, BodyError) as error:
            LOG.warning("consumer %s does not say its offsets: %s", member.client_id, error)
            return None

    @serves(RequestCode.GET_CONSUMER_RUNNING_INFO, read_row(group_of(Action.GET)))
    async def _get_running_info(self, request: Request) -> None:
        header = request.command.header(GetConsumerRunningInfoRequestHeader)
        await self._call_member(request, header.consumer_group, header.client_id, header, b"")

    @serves(
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
        change_row(group_of(Action.SUB), topic_of(Action.SUB, optional=True), record=READ),
    )
    async def _consume_directly(self, request: Request) -> None:
        """Let a member of a group consume a message at once (request 309)."""
        header = request.command.header(ConsumeMessageDirectlyResultRequestHeader)
        offset = offset_of_message_id(header.msg_id)
        record = await asyncio.to_thread(self._store.read_record, offset)
        if record is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
        self._access.check_record(request, record)
        header.broker_name = self._settings.broker_name
        await self._call_member(request, header.consumer_group, header.client_id, header, record)

    async def _call_member(
        self, request: Request, group_name: str, client_id: str | None, header: Header, body: bytes
    ) -> None:
        """Pass a request, with a record as its body or none, on to a member of a group, and its answer back."""
        members = [one for one in self._members(group_name) if one.client_id == client_id]
        if not members:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online")
        if body and not self._access.may_read(members[0].sender, body):
            raise RefusedError(
                ResponseCode.NO_PERMISSION, f"The Consumer <{group_name}> <{client_id}> may not read the message"
            )
        try:
            answer = await members[0].channel.request(request.command.code, header, body=body, timeout_s=CALL_SECONDS)
        except TimeoutError as error:
            raise RefusedError(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group_name}>: {error}") from None
        except ChannelError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"consumer <{group_name}>: {error}") from None
        request.reply(answer.code, body=answer.body, remark=answer.remark)


def offset_of_message_id(message_id: str | None) -> int:
    """Return the place in the log that a message id says. Raises RefusedError."""
    try:
        return int((message_id or "")[-MESSAGE_ID_OFFSET_DIGITS:], 16)
    except ValueError:
        raise RefusedError(ResponseCode.SYSTEM_ERROR, f"{message_id} is no message id") from None


def _queue_offsets(answer: Command) -> msgspec.Raw | None:
    """Return the offsets of a member's answer, ready to stand in a body. Raises BodyError."""
    body: Any = loads(answer.body) if answer.body else {}
    table = body.get("messageQueueTable") if isinstance(body, dict) else None
    if not isinstance(table, dict):
        return None
    found: dict[MessageQueue, int] = {}
    for key, offset in table.items():
        queue = dict(key) if isinstance(key, tuple) else {}
        topic, broker_name, queue_id = (queue.get(one) for one in ("topic", "brokerName", "queueId"))
        if not isinstance(queue_id, int) or not isinstance(offset, int):
            raise BodyError(f"messageQueueTable: {key!r:.80} is no queue")
        found[MessageQueue(str(topic), str(broker_name), queue_id)] = offset
    return queue_map(found)
