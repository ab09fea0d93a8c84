"""Limits on the messages that wait for answers: further sends wait for room, in the order in which they came.

RocketMQ's source: client/impl/producer/DefaultMQProducerImpl.java (semaphoreAsyncSendNum, semaphoreAsyncSendSize).
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

from rocketflow.client.errors import NoRoomError


class InFlight:
    """Counts the messages, and the bytes of their bodies, that wait for answers.

    A single send larger than all bytes is let through when nothing else waits for an answer.
    """

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count, self._max_bytes = max_count, max_bytes
        self._count = self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int, int]] = deque()
        self._drained: list[asyncio.Future[None]] = []

    def take(self, count: int, size: int) -> bool:
        """Count messages if there is room for them, and return whether there is."""
        if self._waiting or not self._has_room(count, size):
            return False
        self._count += count
        self._bytes += size
        return True

    async def wait(self, count: int, size: int, timeout_s: float) -> None:
        """Count messages as soon as there is room for them. Raises NoRoomError after `timeout_s` seconds."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (turn, count, size)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release(count, size)  # its turn came at the same moment
            with suppress(ValueError):
                self._waiting.remove(entry)
            self._admit()
            if isinstance(error, TimeoutError):
                raise NoRoomError(
                    f"{self._count:,} messages with {self._bytes:,} bytes wait for answers, and none came within "
                    f"{timeout_s:g} s: send less, or raise max_in_flight or max_in_flight_bytes"
                ) from None
            raise

    def release(self, count: int, size: int) -> None:
        """Count messages no more, and let waiting sends go on."""
        self._count -= count
        self._bytes -= size
        if self._waiting:
            self._admit()
        if not self._count and self._drained:
            for one in self._drained:
                if not one.done():
                    one.set_result(None)
            self._drained.clear()

    async def drain(self, timeout_s: float) -> None:
        """Wait until nothing waits for an answer, at most `timeout_s` seconds."""
        if self._count:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(done)
            await asyncio.wait({done}, timeout=timeout_s)

    def _has_room(self, count: int, size: int) -> bool:
        if not self._count:
            return True
        return self._count + count <= self._max_count and self._bytes + size <= self._max_bytes

    def _admit(self) -> None:
        while self._waiting:
            turn, count, size = self._waiting[0]
            if not turn.done():
                if not self._has_room(count, size):
                    return
                self._count += count
                self._bytes += size
                turn.set_result(None)
            self._waiting.popleft()
