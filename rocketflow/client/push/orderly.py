"""Calls of an orderly listener: the messages of each queue one after the other, while the broker locks the queue.

RocketMQ's source: client/impl/consumer/ConsumeMessageOrderlyService.java.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rocketflow.client.push.listeners import ConsumeContext, ConsumeStatus, call

if TYPE_CHECKING:
    from rocketflow.client.push.figures import ConsumeFigures
    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.listeners import Listener
    from rocketflow.client.push.options import PushOptions
    from rocketflow.client.push.send_backs import SendBacks
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

_LEAST_PAUSE_S: Final = 0.01
_MOST_PAUSE_S: Final = 30.0
_UNLOCKED_S: Final = 0.1


class OrderlyCalls:
    """Runs one task for each queue; at most `concurrency` calls of the listener run at a time."""

    def __init__(
        self, options: PushOptions, listener: Listener, send_backs: SendBacks, figures: ConsumeFigures
    ) -> None:
        self._options = options
        self._listener = listener
        self._send_backs = send_backs
        self._figures = figures
        self._slots = asyncio.Semaphore(options.concurrency)
        self._tasks: dict[asyncio.Task[None], HeldQueue] = {}
        self._is_closing = False

    def start(self) -> None:
        """Begin: nothing is to be done without queues."""

    def hold(self, held: HeldQueue) -> None:
        """Consume the messages of a queue from now on, until it is dropped."""
        task = asyncio.get_running_loop().create_task(self._run(held))
        self._tasks[task] = held
        task.add_done_callback(self._ended)

    def submit(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Take note of messages that were added to a queue: its task takes them from there."""

    async def close(self, seconds: float) -> None:
        """Start no further call, and wait at most `seconds` for those that run; then they are cancelled."""
        self._is_closing = True
        running = []
        for task, held in self._tasks.items():
            if held.consuming.locked():
                running.append(task)
            else:
                task.cancel()
        late: set[asyncio.Task[None]] = set()
        if running:
            _, late = await asyncio.wait(running, timeout=seconds)
        if late:
            group = self._options.group
            LOG.warning("group %s: %d calls of the listener did not end in %g s", group, len(late), seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        held = self._tasks.pop(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("group %s: %s is consumed no more", self._options.group, held.queue, exc_info=task.exception())

    async def _run(self, held: HeldQueue) -> None:
        while not held.is_dropped and not self._is_closing:
            if not len(held.messages):
                await held.wait_for_messages()
            elif not self._may_consume(held):
                await asyncio.sleep(_UNLOCKED_S)  # the holder of the queue locks it again, or drops it
            else:
                await asyncio.sleep(await self._consume(held))

    def _may_consume(self, held: HeldQueue) -> bool:
        return held.is_locked or not self._options.locks_queues

    async def _consume(self, held: HeldQueue) -> float:
        """Call the listener once; return the seconds for which the queue is suspended."""
        loop = asyncio.get_running_loop()
        async with self._slots, held.consuming:
            if held.is_dropped or self._is_closing or not self._may_consume(held):  # it may have waited for a slot
                return 0.0
            messages = list(held.messages.head(self._options.batch))
            context = ConsumeContext(held.queue)
            began = loop.time()
            outcome = await call(self._listener, list(messages), context)
            succeeded = outcome.status is ConsumeStatus.SUCCESS
            ms = (loop.time() - began) * 1000
            count = len(messages) if succeeded else 0
            self._figures.of(held.queue.topic).count_call(count, len(messages) - count, ms)
            if succeeded:
                held.finish(messages, loop.time())  # of a dropped queue too: it stays locked until this call has ended
                return 0.0
            if await self._retry(held, messages):
                return 0.0
        pause = self._options.suspend_s if context.suspend_s is None else context.suspend_s
        return min(max(pause, _LEAST_PAUSE_S), _MOST_PAUSE_S)

    async def _retry(self, held: HeldQueue, messages: list[ReceivedMessage]) -> bool:
        """Send messages that were retried often enough to the dead letters; return whether none is left to retry."""
        if self._options.broadcasting:
            return False
        is_done = True
        for one in messages:
            if one.reconsume_times >= self._options.trials and await self._send_backs.send_copy(one):
                held.finish([one], asyncio.get_running_loop().time())
            else:
                one.reconsume_times += 1
                is_done = False
        return is_done
