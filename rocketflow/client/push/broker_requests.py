"""Requests that brokers send to a push consumer: rebalance, reset offsets, report, consume a message at once.

RocketMQ's source: client/impl/ClientRemotingProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from rocketflow.client.admin.figures import offset_table
from rocketflow.client.consume.membership import now_ms
from rocketflow.client.consume.running_info import running_info
from rocketflow.client.errors import ClientError
from rocketflow.client.push.listeners import ConsumeContext, ConsumeStatus, call
from rocketflow.client.push.report import held_queue_info, properties
from rocketflow.remoting.bodies import MessageQueue, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import answer
from rocketflow.remoting.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from rocketflow.remoting.headers.offset import ResetOffsetRequestHeader
from rocketflow_store.spi.messages import decode_records
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.cluster import Handler
    from rocketflow.client.consume.membership import GroupMembership
    from rocketflow.client.push.figures import ConsumeFigures
    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.listeners import Listener
    from rocketflow.client.push.options import PushOptions
    from rocketflow.remoting.command import Command

LOG: Final = logging.getLogger("rocketflow.client")


class QueueHolder(Protocol):
    """Holds the queues of a consumer."""

    def queues(self) -> Mapping[MessageQueue, HeldQueue]:
        """Return the queues that are held."""

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Read those queues that are held from other offsets on."""


class BrokerRequests:
    """Answers the requests of brokers, once the consumer has started."""

    def __init__(
        self, options: PushOptions, listener: Listener, membership: GroupMembership, figures: ConsumeFigures
    ) -> None:
        self._options = options
        self._listener = listener
        self._membership = membership
        self._figures = figures
        self._holder: QueueHolder | None = None
        self._wake: Callable[[], None] = lambda: None
        self._started_ms = 0

    def start(self, holder: QueueHolder, wake: Callable[[], None]) -> None:
        """Answer for these queues from now on; `wake` asks for a rebalance."""
        self._holder, self._wake, self._started_ms = holder, wake, now_ms()

    def handlers(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._offsets,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume,
        }

    async def _members_changed(self, command: Command, _address: str) -> None:
        if command.header(NotifyConsumerIdsChangedRequestHeader).consumer_group == self._options.group:
            self._wake()

    async def _reset(self, command: Command, address: str) -> None:
        header = command.header(ResetOffsetRequestHeader)
        holder = self._of_group(header.group)
        offsets = offset_table(command.body)
        LOG.warning("group %s: %s resets the offsets of %d queues", header.group, address, len(offsets))
        await holder.reset(offsets)

    async def _offsets(self, command: Command, _address: str) -> Command:
        header = command.header(GetConsumerStatusRequestHeader)
        held = self._of_group(header.group).queues()
        found = {queue: one.messages.commit_offset for queue, one in held.items() if queue.topic == header.topic}
        return answer(command, body=encode_body({"consumerTable": {}, "messageQueueTable": queue_map(found)}))

    async def _running_info(self, command: Command, _address: str) -> Command:
        header = command.header(GetConsumerRunningInfoRequestHeader)
        held = self._of_group(header.consumer_group).queues()
        body = running_info(
            properties(self._options, self._started_ms),
            self._membership.subscriptions(),
            {queue: held_queue_info(one) for queue, one in held.items()},
            self._figures.status_table(asyncio.get_running_loop().time()),
            with_stacks=header.jstack_enable,
        )
        return answer(command, body=body)

    async def _consume(self, command: Command, _address: str) -> Command:
        """Call the listener with one message, whose offset is not committed."""
        header = command.header(ConsumeMessageDirectlyResultRequestHeader)
        self._of_group(header.consumer_group)
        message = next(decode_records(command.body, header.broker_name or ""))
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        if message.topic == RETRY_PREFIX + self._options.group:
            message.topic = message.properties.get("RETRY_TOPIC", message.topic)
        loop = asyncio.get_running_loop()
        began = loop.time()
        outcome = await call(self._listener, [message], ConsumeContext(queue))
        result = "CR_SUCCESS" if outcome.status is ConsumeStatus.SUCCESS else "CR_LATER"
        body: dict[str, Any] = {
            "autoCommit": True,
            "consumeResult": result if outcome.error is None else "CR_THROW_EXCEPTION",
            "order": self._options.orderly,
            "spentTimeMills": int((loop.time() - began) * 1000),
        }
        if outcome.error is not None:
            body["remark"] = f"{type(outcome.error).__name__}: {outcome.error}"
        return answer(command, body=encode_body(body))

    def _of_group(self, group: str) -> QueueHolder:
        if group != self._options.group or self._holder is None:
            raise ClientError(f"the consumer group {group!r} is not started in this client")
        return self._holder
