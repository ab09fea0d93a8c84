"""Calls of a concurrent listener: messages of all queues in any order, failed ones sent back to the broker.

RocketMQ's source: client/impl/consumer/ConsumeMessageConcurrentlyService.java, ProcessQueue.java (cleanExpiredMsg).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rocketflow.client.push.listeners import ConsumeContext, call, succeeded

if TYPE_CHECKING:
    from rocketflow.client.push.figures import ConsumeFigures
    from rocketflow.client.push.held_queue import HeldQueue
    from rocketflow.client.push.listeners import Listener
    from rocketflow.client.push.options import PushOptions
    from rocketflow.client.push.send_backs import SendBacks
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

AGAIN_S: Final = 5.0
"""A message that could not be sent back is consumed again after this time."""
TIMED_OUT_LEVEL: Final = 3
"""The delay level of messages whose listener takes too long: 10 seconds."""
_YIELD_S: Final = 0.005
_MOST_BETWEEN_LOOKS_S: Final = 60.0


class _Batch(NamedTuple):
    held: HeldQueue
    messages: list[ReceivedMessage]


class _Worker:
    """A task that calls the listener; `batch` is that of the call that runs, since `began`."""

    def __init__(self) -> None:
        self.batch: _Batch | None = None
        self.began = 0.0
        self.task: asyncio.Task[None] | None = None


class ConcurrentCalls:
    """Runs at most `concurrency` calls of the listener at a time, each with at most `batch` messages of a queue."""

    def __init__(
        self, options: PushOptions, listener: Listener, send_backs: SendBacks, figures: ConsumeFigures
    ) -> None:
        self._options = options
        self._listener = listener
        self._send_backs = send_backs
        self._figures = figures
        self._waiting: deque[_Batch] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._workers: set[_Worker] = set()
        self._others: set[asyncio.Task[None]] = set()
        self._is_waking = False
        self._is_closing = False
        self._time: Callable[[], float] = time.monotonic

    def start(self) -> None:
        """Begin to look for calls that take too long."""
        self._time = asyncio.get_running_loop().time
        self._spawn(self._look())

    def hold(self, held: HeldQueue) -> None:
        """Begin with a queue: nothing is to be done until it has messages."""

    def submit(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages that were added to a queue."""
        size = self._options.batch
        for begin in range(0, len(messages), size):
            self._waiting.append(_Batch(held, messages[begin : begin + size]))
        self._wake()

    async def close(self, seconds: float) -> None:
        """Start no further call, and wait at most `seconds` for those that run; then they are cancelled."""
        self._is_closing = True
        self._waiting.clear()
        for one in self._idle:
            one.cancel()
        tasks = [one.task for one in self._workers if one.task is not None]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            if late:
                LOG.warning("group %s: %d calls of the listener did not end in %g s", self._group, len(late), seconds)
            tasks = list(late)
        for task in (*tasks, *self._others):
            task.cancel()
        await asyncio.gather(*tasks, *self._others, return_exceptions=True)

    @property
    def _group(self) -> str:
        return self._options.group

    # --- workers

    def _wake(self) -> None:
        """Let one more worker look at what waits; it wakes the next one if that is not enough."""
        if self._is_waking or self._is_closing:
            return
        while self._idle:
            one = self._idle.pop()
            if not one.done():
                self._is_waking = True
                one.set_result(None)
                return
        if len(self._workers) < self._options.concurrency:
            self._is_waking = True
            worker = _Worker()
            self._workers.add(worker)
            worker.task = asyncio.get_running_loop().create_task(self._work(worker))

    async def _work(self, worker: _Worker) -> None:
        try:
            self._is_waking = False
            yielded = self._time()
            while not self._is_closing:
                if not self._waiting:
                    idle = asyncio.get_running_loop().create_future()
                    self._idle.append(idle)
                    await idle
                    self._is_waking = False
                    yielded = self._time()
                    continue
                worker.batch = batch = self._waiting.popleft()
                if self._waiting and not self._is_waking:
                    self._wake()
                worker.began = self._time()
                ended = await self._consume(worker, batch)
                worker.batch = None
                if ended - yielded > _YIELD_S:
                    await asyncio.sleep(0)
                    yielded = self._time()
        finally:
            self._workers.discard(worker)

    async def _consume(self, worker: _Worker, batch: _Batch) -> float:
        """Call the listener and treat its outcome; return the time at which the call ended."""
        held, messages = batch
        if held.is_dropped:
            return worker.began
        context = ConsumeContext(held.queue)
        outcome = await call(self._listener, list(messages), context)
        now = self._time()
        if worker.batch is not batch or held.is_dropped:
            return now  # sent back meanwhile, or another client's
        count = succeeded(messages, context, outcome.status)
        self._figures.of(held.queue.topic).count_call(count, len(messages) - count, (now - worker.began) * 1000)
        if count == len(messages):
            held.finish(messages, now)
        else:
            worker.batch = None  # the listener is not late any more
            held.finish(messages[:count], now)
            await self._failed(held, messages[count:], context.delay_level)
        return now

    # --- messages that failed

    async def _failed(self, held: HeldQueue, messages: list[ReceivedMessage], delay_level: int) -> None:
        """Send messages back; those for which that fails are consumed again."""
        if self._options.broadcasting:
            ids = ", ".join(one.message_id for one in messages)
            LOG.warning("group %s: broadcast messages are not retried: %s", self._group, ids)
            held.finish(messages, self._time())
            return
        again = []
        for one in messages:
            if await self._send_backs.send_back(one, held.queue.broker_name, delay_level):
                held.finish([one], self._time())
            else:
                one.reconsume_times += 1
                again.append(one)
        if again:
            self._spawn(self._submit_again(held, again))

    async def _submit_again(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        await asyncio.sleep(AGAIN_S)
        if not held.is_dropped and not self._is_closing:
            self.submit(held, messages)

    async def _look(self) -> None:
        """Send back the messages of calls that take too long, and cancel the calls."""
        timeout = self._options.consume_timeout_s
        while True:
            await asyncio.sleep(min(timeout / 4, _MOST_BETWEEN_LOOKS_S))
            now = self._time()
            for worker in list(self._workers):
                batch = worker.batch
                if batch is None or worker.task is None or now - worker.began < timeout:
                    continue
                worker.batch = None
                LOG.warning(
                    "group %s: the listener has worked on message %s for %g s; it is cancelled, and retried later",
                    self._group,
                    batch.messages[0].message_id,
                    now - worker.began,
                )
                worker.task.cancel()
                if not batch.held.is_dropped:
                    self._spawn(self._failed(batch.held, batch.messages, TIMED_OUT_LEVEL))
                self._workers.discard(worker)
                self._wake()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
