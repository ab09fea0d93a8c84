"""Messages that wait for the store, without I/O: times are seconds of one clock that the caller passes in.

RocketMQ's source: broker/latency/BrokerFastFailure.java.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """A message that waits, or several: when it arrived, its size in bytes, the number of messages."""

    @property
    def arrived(self) -> float: ...

    @property
    def size(self) -> int: ...

    @property
    def messages(self) -> int: ...


T = TypeVar("T", bound=Timed)


class WaitingPuts(Generic[T]):
    """Messages in the order of their arrival, and when a commit of a job or a delivery last held the put lock."""

    def __init__(self) -> None:
        self._puts: list[T] = []
        self._more = 0
        """Messages beyond one for each of `_puts`."""
        self._held_until = 0.0

    def __len__(self) -> int:
        return len(self._puts) + self._more

    def add(self, put: T) -> None:
        """Add a message."""
        self._puts.append(put)
        self._more += put.messages - 1

    def waited_s(self, now: float) -> float:
        """Return how long the first message has waited, 0 without one."""
        return now - self._puts[0].arrived if self._puts else 0.0

    def lock_was_held(self, until: float) -> None:
        """Take note that a commit or a delivery held the put lock until a time."""
        self._held_until = max(self._held_until, until)

    def take_late(self, now: float, limit_s: float | None) -> list[T]:
        """Remove and return the messages that have waited longer than `limit_s`, None for any time.

        The time that a commit or a delivery held the put lock does not count.
        """
        if limit_s is None:
            return []
        before, count = now - limit_s, 0
        for one in self._puts:
            if max(one.arrived, self._held_until) >= before:
                break
            count += 1
        return self._take(count) if count else []

    def take_all(self) -> list[T]:
        """Remove and return all messages."""
        return self._take(len(self._puts))

    def take_run(self, most: int, most_bytes: int | None) -> list[T]:
        """Remove and return the first messages: `most` of them, or as many as reach `most_bytes` (None: no limit).

        Those that arrived together stay so: there may be fewer than `most`.
        """
        count = min(most, len(self._puts))
        if self._more:
            count = max(bisect_right([*accumulate(one.messages for one in self._puts[:count])], most), 1)
        return self._take(count if most_bytes is None else _end_of_run(self._puts, count, most_bytes))

    def _take(self, count: int) -> list[T]:
        taken, self._puts = self._puts[:count], self._puts[count:]
        if self._more:
            self._more -= sum([one.messages for one in taken]) - len(taken)
        return taken


def _end_of_run(puts: Sequence[Timed], most: int, most_bytes: int) -> int:
    size = 0
    for place in range(most):
        size += puts[place].size
        if size >= most_bytes:
            return place + 1
    return most
