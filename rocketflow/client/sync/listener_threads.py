"""Threads that run a plain function as the listener of an asyncio consumer, with few wake-ups of the event loop.

`in_thread` wakes the loop once for each call. Here one wake-up hands over all calls that have ended until then, which
a listener that takes microseconds needs.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rocketflow.client.push import ConsumeContext, ConsumeStatus
    from rocketflow_store.spi.messages import ReceivedMessage

    Function = Callable[[list[ReceivedMessage], ConsumeContext], ConsumeStatus | None]


class _Call(NamedTuple):
    outcome: asyncio.Future[ConsumeStatus | None]
    messages: list[ReceivedMessage]
    context: ConsumeContext


class ListenerThreads:
    """A listener that runs `function` in one of `count` threads, which begin when they are needed."""

    def __init__(self, function: Function, count: int, name: str) -> None:
        self._function = function
        self._count = count
        self._name = name
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._ended: deque[tuple[_Call, ConsumeStatus | None, Exception | None]] = deque()
        self._is_notified = False
        self._running = 0
        self._threads = 0

    async def __call__(self, messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        """Run the function and return its outcome; raises what it raises."""
        loop = asyncio.get_running_loop()
        call = _Call(loop.create_future(), messages, context)
        if self._running == self._threads < self._count:
            self._threads += 1
            name = f"{self._name}-{self._threads}"
            threading.Thread(target=self._work, args=(loop,), name=name, daemon=True).start()
        self._running += 1
        self._calls.put(call)
        try:
            return await call.outcome
        finally:
            self._running -= 1

    def close(self) -> None:
        """End the threads, each after the call that it runs."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (call := self._calls.get()) is not None:
            status: ConsumeStatus | None = None
            error: Exception | None = None
            if not call.outcome.cancelled():
                try:
                    status = self._function(call.messages, call.context)
                except StopIteration as raised:  # a future does not take it
                    error = RuntimeError(f"the listener raised {raised!r}")
                except Exception as raised:  # a user's function may raise anything
                    error = raised
            self._ended.append((call, status, error))
            if not self._is_notified:
                self._is_notified = True
                loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_notified = False  # before the outcomes are taken: one that comes now is handed over, or notified again
        while self._ended:
            call, status, error = self._ended.popleft()
            if call.outcome.done():
                continue
            if error is None:
                call.outcome.set_result(status)
            else:
                call.outcome.set_exception(error)
