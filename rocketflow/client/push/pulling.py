"""The pulls of a push consumer: one after the other for each queue, the next one as soon as the answer is here.

RocketMQ's source: client/impl/consumer/DefaultMQPushConsumerImpl.java (pullMessage), PullMessageService.java.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from rocketflow.client.consume.gaps import announced, unannounced
from rocketflow.client.consume.pulls import SUSPEND_S, PullRequest
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store.spi.messages import CorruptRecordError

if TYPE_CHECKING:
    from rocketflow.client.consume.corrections import Corrections
    from rocketflow.client.consume.gaps import SkipReports
    from rocketflow.client.consume.membership import GroupMembership
    from rocketflow.client.consume.pulls import Puller, PullResult
    from rocketflow.client.push.figures import ConsumeFigures
    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.options import PushOptions
    from rocketflow.client.push.send_backs import SendBacks
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

AFTER_ERROR_S: Final = 1.0
_FLOW_CONTROL_S: Final = 0.02
_UNLOCKED_S: Final = 0.1
_SUBSCRIPTION_CODES: Final = frozenset(
    {
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    }
)


class Calls(Protocol):
    """The calls of a concurrent or an orderly listener, which consume messages."""

    def start(self) -> None:
        """Begin."""

    def hold(self, held: HeldQueue) -> None:
        """Begin with a queue."""

    def submit(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages that were added to a queue."""

    async def close(self, seconds: float) -> None:
        """Start no further call, and wait at most `seconds` for those that run; then they are cancelled."""


class Pulling:
    """Reads held queues and submits what they have to the listener's calls."""

    def __init__(
        self,
        options: PushOptions,
        membership: GroupMembership,
        puller: Puller,
        calls: Calls,
        send_backs: SendBacks,
        figures: ConsumeFigures,
        skips: SkipReports,
        corrections: Corrections,
    ) -> None:
        self._options = options
        self._membership = membership
        self._puller = puller
        self._calls = calls
        self._send_backs = send_backs
        self._figures = figures
        self._skips = skips
        self._corrections = corrections
        self._complaints: dict[MessageQueue, str] = {}
        self._may_pull = asyncio.Event()
        self._may_pull.set()

    @property
    def is_suspended(self) -> bool:
        """Return whether no queue is read for now."""
        return not self._may_pull.is_set()

    def suspend(self) -> None:
        """Read no queue until `resume`; pulls that are under way end as usual."""
        self._may_pull.clear()

    def resume(self) -> None:
        """Read all queues again."""
        self._may_pull.set()

    async def pull_until_moved(self, held: HeldQueue) -> int | None:
        """Read a queue until it is dropped, or until it has to be read from another offset on.

        Return that offset, None for a queue that was dropped.
        """
        self._calls.hold(held)
        while not held.is_dropped:
            await self._may_pull.wait()
            await held.wait_for_room()
            if self._options.locks_queues and not held.is_locked:
                await asyncio.sleep(_UNLOCKED_S)
                continue
            try:
                result = await self._pull(held)
                self._complaints.pop(held.queue, None)
            except (ClientError, CorruptRecordError) as error:
                self._corrections.failed(held.queue, error)
                await asyncio.sleep(self._pause(held, error))
                continue
            if result is not None and not held.is_dropped:
                return result
            if self._options.pull_interval_s:
                await asyncio.sleep(self._options.pull_interval_s)
        return None

    async def _pull(self, held: HeldQueue) -> int | None:
        """Send one pull and submit its messages; return the right offset if the queue's is not."""
        queue = held.queue
        subscription = self._membership.subscriptions().get(queue.topic)
        if subscription is None:
            raise ClientError(f"topic {queue.topic!r} is not subscribed to any more")
        began = asyncio.get_running_loop().time()
        result = await self._puller.pull(
            PullRequest(
                queue=queue,
                offset=held.messages.next_offset,
                subscription=subscription,
                max_messages=self._options.pull_batch,
                max_bytes=self._options.pull_bytes,
                commit_offset=self._to_commit(held),
                suspend_s=self._corrections.suspend_s(queue, SUSPEND_S),
            )
        )
        if held.is_dropped:
            return None
        moved = self._corrections.next_offset(result)
        if moved is not None:
            return moved
        messages = self._decoded(result)
        ms = (asyncio.get_running_loop().time() - began) * 1000
        self._figures.of(queue.topic).count_pull(len(messages), ms)
        if skipped := [*announced(result), *unannounced(result, messages)]:
            self._skips.report(await self._skips.confirmed(skipped))
            if held.is_dropped:
                return None
        added = held.add(messages, result.next_offset)
        if added:
            self._calls.submit(held, added)
        return None

    def _decoded(self, result: PullResult) -> list[ReceivedMessage]:
        if result.status is not PullStatus.FOUND:
            return []
        messages = result.messages()
        if self._send_backs.is_retry(result.request.queue.topic):
            for one in messages:
                self._send_backs.restore_topic(one)
        return messages

    def _to_commit(self, held: HeldQueue) -> int | None:
        """Return the offset that the pull commits: none of a broadcasting group, nor 0."""
        return None if self._options.broadcasting else held.messages.commit_offset or None

    def _pause(self, held: HeldQueue, error: ClientError | CorruptRecordError) -> float:
        """Log why a pull failed, once for each reason, and return the seconds before the next one."""
        code = error.code if isinstance(error, RequestRefusedError) else None
        if code == ResponseCode.FLOW_CONTROL:
            return _FLOW_CONTROL_S
        level = logging.DEBUG if self._complaints.get(held.queue) == str(error) else logging.WARNING
        self._complaints[held.queue] = str(error)
        if code in _SUBSCRIPTION_CODES:
            LOG.log(
                level,
                "group %s: the broker has another subscription of topic %s, or none: all consumers of a group have to "
                "subscribe alike: %s",
                self._options.group,
                held.queue.topic,
                error,
            )
        else:
            LOG.log(level, "group %s: a pull of %s failed: %s", self._options.group, held.queue, error)
        return AFTER_ERROR_S
