"""A queue that a push consumer holds: its unfinished messages, and the tasks that wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketflow.client.push.process_queue import ProcessQueue, QueueLimits

if TYPE_CHECKING:
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

LOCK_LIVES_S: Final = 30.0
"""How long a client trusts a lock that it has not renewed; the broker frees it after 60 s."""


class HeldQueue:
    """Holds the messages of a queue until it is dropped, which it is when this client reads it no more.

    One reader (`wait_for_room`, `add`) and the listeners' side (`wait_for_messages`, `finish`) use it in one loop.
    Times are those of the loop's clock in seconds. `consuming` is taken during a call of an orderly listener.
    """

    def __init__(self, queue: MessageQueue, start: int, limits: QueueLimits) -> None:
        self.queue = queue
        self.messages = ProcessQueue(start)
        self.consuming = asyncio.Lock()
        self.is_dropped = False
        self.last_pull = self.last_consumed = 0.0
        self._limits = limits
        self._locked_at: float | None = None
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    # --- the reader's side

    async def wait_for_room(self) -> None:
        """Wait until fewer messages than the limits are unfinished, or the queue is dropped."""
        while self.messages.is_full(self._limits) and not self.is_dropped:
            self._changed.clear()
            await self._changed.wait()

    def add(self, messages: Iterable[ReceivedMessage], next_offset: int) -> list[ReceivedMessage]:
        """Add the messages of a pull and return those that are new."""
        self.last_pull = asyncio.get_running_loop().time()
        added = self.messages.add(messages, next_offset)
        if added:
            self._changed.set()
        return added

    # --- the listeners' side

    async def wait_for_messages(self) -> None:
        """Wait until a message is unfinished, or the queue is dropped."""
        while not len(self.messages) and not self.is_dropped:
            self._changed.clear()
            await self._changed.wait()

    def finish(self, messages: Iterable[ReceivedMessage], now: float) -> None:
        """Remove messages that need no further work."""
        self.messages.finish(messages)
        self.last_consumed = now
        self._changed.set()

    # --- the holder's side

    def read_by(self, reader: asyncio.Task[None]) -> None:
        """Take note of the task that reads the queue."""
        self._reader = reader

    async def stop_reading(self) -> None:
        """Cancel the task that reads the queue and wait for its end."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    def drop(self) -> None:
        """End the wait of both sides, and the reader unless it calls this: results of running calls count no more."""
        self.is_dropped = True
        self._changed.set()
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()

    def set_locked(self, asked_at: float) -> None:
        """Take note that the broker has locked the queue for this client, which asked for it at a time."""
        self._locked_at = asked_at

    @property
    def is_locked(self) -> bool:
        """Return whether the broker locked the queue for this client less than LOCK_LIVES_S ago."""
        return self._locked_at is not None and asyncio.get_running_loop().time() - self._locked_at < LOCK_LIVES_S

    @property
    def last_lock(self) -> float:
        """Return when the broker last locked the queue, 0 for never."""
        return self._locked_at or 0.0
