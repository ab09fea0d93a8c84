"""Requests that wait for their answers on one connection.

RocketMQ's source: remoting/netty/NettyRemotingAbstract.java (responseTable).
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class PendingRequests(Generic[T]):
    """Hands out the `opaque` of requests and finds what waits for an answer."""

    def __init__(self) -> None:
        self._opaque = 0
        self._waiting: dict[int, T] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def next_opaque(self) -> int:
        """Return an `opaque` that no request that waits has."""
        while True:
            self._opaque = (self._opaque + 1) & 0x7FFFFFFF
            if self._opaque not in self._waiting:
                return self._opaque

    def add(self, opaque: int, waiter: T) -> None:
        """Add what waits for the answer to a request."""
        self._waiting[opaque] = waiter

    def pop(self, opaque: int) -> T | None:
        """Remove and return what waits for an answer, or None if nothing does: late, or never asked for."""
        return self._waiting.pop(opaque, None)

    def pop_all(self) -> list[T]:
        """Remove and return everything that waits: the connection has ended."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        return waiting
