"""Requests that brokers send to a pull consumer: rebalance, report.

RocketMQ's source: client/impl/ClientRemotingProcessor.java, client/impl/consumer/DefaultLitePullConsumerImpl.java
(consumerRunningInfo).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from rocketflow.client.consume.membership import CLUSTERING, PULL, now_ms
from rocketflow.client.consume.running_info import properties_of_all, queue_info, running_info
from rocketflow.client.errors import ClientError
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import answer
from rocketflow.remoting.headers.client import (
    GetConsumerRunningInfoRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)

if TYPE_CHECKING:
    from rocketflow.client.cluster import Handler
    from rocketflow.client.consume.membership import GroupMembership
    from rocketflow.client.consume.offset_stores import OffsetStore
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.client.pull.queue_buffer import QueueBuffer
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow.remoting.command import Command


class QueueReader(Protocol):
    """Reads the queues of a consumer."""

    @property
    def buffers(self) -> Mapping[MessageQueue, QueueBuffer]:
        """Return the buffers of the queues."""


class BrokerRequests:
    """Answers the requests of brokers, once the consumer has started."""

    def __init__(self, options: PullOptions, membership: GroupMembership) -> None:
        self._options = options
        self._membership = membership
        self._reader: QueueReader | None = None
        self._offsets: OffsetStore | None = None
        self._wake: Callable[[], None] = lambda: None
        self._started_ms = 0

    def start(self, reader: QueueReader, offsets: OffsetStore, wake: Callable[[], None]) -> None:
        """Answer for these queues and offsets from now on; `wake` asks for a rebalance."""
        self._reader, self._offsets, self._wake, self._started_ms = reader, offsets, wake, now_ms()

    def handlers(self) -> Mapping[int, Handler]:
        """Return the handlers by request code."""
        return {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    async def _members_changed(self, command: Command, _address: str) -> None:
        if command.header(NotifyConsumerIdsChangedRequestHeader).consumer_group == self._options.group:
            self._wake()

    async def _running_info(self, command: Command, _address: str) -> Command:
        header = command.header(GetConsumerRunningInfoRequestHeader)
        if header.consumer_group != self._options.group or self._reader is None or self._offsets is None:
            raise ClientError(f"the consumer group {header.consumer_group!r} is not started in this client")
        body = running_info(
            self._properties(),
            self._membership.subscriptions(),
            {queue: _buffer_info(one, self._offsets.offset(queue)) for queue, one in self._reader.buffers.items()},
            {},
            with_stacks=header.jstack_enable,
        )
        return answer(command, body=body)

    def _properties(self) -> dict[str, str]:
        options = self._options
        return {
            **properties_of_all(options, PULL, self._started_ms),
            "autoCommit": str(options.auto_commit).lower(),
            "autoCommitIntervalMillis": str(int(options.commit_interval_s * 1000)),
            "consumeFromWhere": options.start.value,
            "consumerGroup": options.group,
            "messageModel": CLUSTERING,
            "pullBatchSize": str(options.pull_batch),
            "pullThresholdForAll": str(options.prefetch_messages),
        }


def _buffer_info(buffer: QueueBuffer, committed: int | None) -> dict[str, Any]:
    """Return the members of ProcessQueueInfo; without an offset in memory none was committed by this client yet: -1."""
    return queue_info(
        commit_offset=-1 if committed is None else committed,
        first=buffer.position if buffer.count else 0,
        last=buffer.pull_offset - 1 if buffer.count else 0,
        count=buffer.count,
        size=buffer.size,
    )
