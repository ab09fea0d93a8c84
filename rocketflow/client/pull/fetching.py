"""A task for each queue, which pulls ahead of the caller.

RocketMQ's source: client/impl/consumer/DefaultLitePullConsumerImpl.java (PullTaskImpl).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from rocketflow.client.consume.gaps import unannounced
from rocketflow.client.consume.pulls import PullRequest
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.pull_status import PullStatus
from rocketflow.remoting.codes import ResponseCode

if TYPE_CHECKING:
    from rocketflow.client.consume.corrections import Corrections
    from rocketflow.client.consume.gaps import SkipReports
    from rocketflow.client.consume.pulls import Puller
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.client.pull.queue_buffer import QueueBuffer
    from rocketflow.client.skipped import SkippedMessages
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

LOG: Final = logging.getLogger("rocketflow.client")

_RETRY_SECONDS: Final = 1.0
_FLOW_CONTROL_SECONDS: Final = 0.02
_FOR_THE_CALLER: Final = frozenset(
    (
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,
    )
)
"""Refusals that a repetition does not change: `poll` raises them, and pulls wait until it has."""


class Fetcher:
    """Pulls the queues of a consumer until they are removed; a paused queue or one with a full share waits."""

    def __init__(self, puller: Puller, options: PullOptions, corrections: Corrections, skips: SkipReports) -> None:
        """Take the options, and what reports corrections of positions and messages that are skipped."""
        self._puller = puller
        self._skips = skips
        self._options = options
        self._corrections = corrections
        self._buffers: dict[MessageQueue, QueueBuffer] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._room: dict[MessageQueue, asyncio.Event] = {}
        self._paused: set[MessageQueue] = set()
        self._turns: list[MessageQueue] = []
        self._arrived = asyncio.Event()
        self._failures: dict[MessageQueue, ClientError] = {}
        self._passed: deque[SkippedMessages] = deque()

    @property
    def buffers(self) -> dict[MessageQueue, QueueBuffer]:
        """Return the buffers of the queues."""
        return dict(self._buffers)

    def add(self, buffer: QueueBuffer) -> None:
        """Begin to pull a queue."""
        self._buffers[buffer.queue] = buffer
        self._turns.append(buffer.queue)
        self._room[buffer.queue] = asyncio.Event()
        self._start(buffer)

    def remove(self, queue: MessageQueue) -> None:
        """Pull a queue no longer and drop what was pulled."""
        self._tasks.pop(queue).cancel()
        del self._buffers[queue], self._room[queue]
        self._turns.remove(queue)
        self._paused.discard(queue)
        self._failures.pop(queue, None)
        self._made_room()

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset; an answer that is under way is dropped."""
        self._tasks[queue].cancel()
        self._buffers[queue].seek(offset)
        self._start(self._buffers[queue])

    def select(self, queue: MessageQueue, subscription: SubscriptionData) -> None:
        """Return messages that another subscription selects, from the position on."""
        self._tasks[queue].cancel()
        self._buffers[queue].select(subscription)
        self._start(self._buffers[queue])

    def pause(self, queue: MessageQueue) -> None:
        """Return no messages of a queue until `resume`; what was pulled waits."""
        self._paused.add(queue)

    def resume(self, queue: MessageQueue) -> None:
        """Return messages of a queue again."""
        self._paused.discard(queue)
        self._room[queue].set()
        self._arrived.set()

    def close(self) -> None:
        """Remove all queues; a `wait` ends."""
        for queue in list(self._buffers):
            self.remove(queue)
        self._arrived.set()

    def ready(self) -> list[QueueBuffer]:
        """Return the buffers with answers, in the order of their turns; the first one gets the last turn then.

        Raises the refusal of a broker if there is none, once for each refusal.
        """
        found = [self._buffers[one] for one in self._turns if one not in self._paused]
        found = [one for one in found if not one.is_empty]
        if found:
            self._turns.remove(found[0].queue)
            self._turns.append(found[0].queue)
        elif self._failures:
            queue, failure = self._failures.popitem()
            self._room[queue].set()
            raise failure
        return found

    def taken(self, buffer: QueueBuffer) -> None:
        """Take note that messages of a buffer were returned."""
        self._passed += buffer.passed()
        self._room[buffer.queue].set()

    async def report_skipped(self) -> None:
        """Report messages that were to be returned and are skipped, once a gap without a reason is confirmed."""
        while self._passed:
            sure = await self._skips.confirmed([self._passed[0]])
            self._passed.popleft()
            self._skips.report(sure)

    async def wait(self, timeout_s: float) -> bool:
        """Wait until an answer or a refusal has arrived; return False after `timeout_s`."""
        self._arrived.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _start(self, buffer: QueueBuffer) -> None:
        self._tasks[buffer.queue] = asyncio.get_running_loop().create_task(self._pull_ahead(buffer))

    async def _pull_ahead(self, buffer: QueueBuffer) -> None:
        while True:
            await self._until_room(buffer)
            try:
                result = await self._puller.pull(self._request(buffer))
                skipped = () if result.status is PullStatus.FOUND else unannounced(result, ())
                skipped = await self._skips.confirmed(skipped)
            except ClientError as error:
                await self._failed(buffer, error)
                continue
            except Exception:
                LOG.exception("a pull of %s failed and is repeated", buffer.queue)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._failures.pop(buffer.queue, None)
            moved = self._corrections.next_offset(result)
            if moved in (None, result.next_offset):
                buffer.add(result, skipped)
                self._skips.report(buffer.passed())
            else:
                buffer.seek(moved)
            if not buffer.is_empty:
                self._arrived.set()

    async def _until_room(self, buffer: QueueBuffer) -> None:
        room = self._room[buffer.queue]
        while buffer.queue in self._paused or not self._has_room(buffer):
            room.clear()
            await room.wait()

    def _has_room(self, buffer: QueueBuffer) -> bool:
        shares = len(self._buffers)
        return buffer.is_empty or (
            buffer.count < self._options.prefetch_messages // shares
            and buffer.size < self._options.prefetch_bytes // shares
        )

    def _request(self, buffer: QueueBuffer) -> PullRequest:
        return PullRequest(
            queue=buffer.queue,
            offset=buffer.pull_offset,
            subscription=buffer.subscription,
            max_messages=self._options.pull_batch,
            suspend_s=self._corrections.suspend_s(buffer.queue, self._options.suspend_s),
            with_subscription=True,
        )

    async def _failed(self, buffer: QueueBuffer, error: ClientError) -> None:
        self._corrections.failed(buffer.queue, error)
        code = error.code if isinstance(error, RequestRefusedError) else None
        if code in _FOR_THE_CALLER:
            await self._until_raised(buffer.queue, error)
        else:
            LOG.warning("a pull of %s failed and is repeated: %s", buffer.queue, error)
        await asyncio.sleep(_FLOW_CONTROL_SECONDS if code == ResponseCode.FLOW_CONTROL else _RETRY_SECONDS)

    async def _until_raised(self, queue: MessageQueue, error: ClientError) -> None:
        """Let `ready` raise a refusal; a caller who polls again wants another pull."""
        self._failures[queue] = error
        self._arrived.set()
        room = self._room[queue]
        while queue in self._failures:
            room.clear()
            await room.wait()

    def _made_room(self) -> None:
        for one in self._room.values():
            one.set()
