"""Pulls that wait for messages, without I/O: times are milliseconds that the caller passes in.

RocketMQ's source: broker/longpolling/PullRequestHoldService.java, ManyPullRequest.java.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

LIMIT: Final = 100_000

C = TypeVar("C", bound=Hashable)
P = TypeVar("P")


class HeldPull(NamedTuple, Generic[C, P]):
    """A pull of a queue that waits for messages from `offset` until `deadline_ms`, and the connection that it came on.

    `tags_codes` are those that it reads, None for all.
    """

    channel: C
    pull: P
    offset: int
    tags_codes: frozenset[int] | None
    deadline_ms: int


class HeldPulls(Generic[C, P]):
    """Pulls that wait, by topic and queue and by connection; at most LIMIT."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], dict[int, HeldPull[C, P]]] = {}
        self._channels: dict[C, dict[int, tuple[str, int]]] = {}
        """The queues of each connection's pulls, by the pulls' numbers."""
        self._count = 0
        self._last_number = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, topic: str, queue_id: int, held: HeldPull[C, P]) -> bool:
        """Let a pull wait; return False if too many do."""
        if self._count >= LIMIT:
            return False
        self._last_number += 1
        key = (topic, queue_id)
        self._queues.setdefault(key, {})[self._last_number] = held
        self._channels.setdefault(held.channel, {})[self._last_number] = key
        self._count += 1
        return True

    def arrived(self, topic: str, queue_id: int, next_offset: int, tags_codes: frozenset[int] | None) -> list[P]:
        """Remove and return the pulls that new messages before `next_offset` may answer.

        `tags_codes` are those of the messages, None for any.
        """
        return self._take(
            (topic, queue_id),
            lambda one: (
                one.offset < next_offset
                and (one.tags_codes is None or tags_codes is None or not one.tags_codes.isdisjoint(tags_codes))
            ),
        )

    def expired(self, now_ms: int) -> list[P]:
        """Remove and return the pulls that have waited until their deadline."""
        return [pull for key in list(self._queues) for pull in self._take(key, lambda one: one.deadline_ms <= now_ms)]

    def of_topic(self, topic: str) -> list[P]:
        """Remove and return the pulls of a topic."""
        keys = [key for key in self._queues if key[0] == topic]
        return [pull for key in keys for pull in self._take(key, lambda one: True)]

    def channel_closed(self, channel: C) -> None:
        """Remove the pulls of a connection, at a cost that depends on their number alone."""
        for number, key in self._channels.pop(channel, {}).items():
            self._remove_from_queue(key, number)

    def all(self) -> list[P]:
        """Remove and return all pulls."""
        return [pull for key in list(self._queues) for pull in self._take(key, lambda one: True)]

    def _take(self, key: tuple[str, int], is_wanted: Callable[[HeldPull[C, P]], bool]) -> list[P]:
        held = self._queues.get(key)
        if not held:
            return []
        taken = [(number, one) for number, one in held.items() if is_wanted(one)]
        for number, one in taken:
            self._remove_from_queue(key, number)
            numbers = self._channels[one.channel]
            del numbers[number]
            if not numbers:
                del self._channels[one.channel]
        return [one.pull for _, one in taken]

    def _remove_from_queue(self, key: tuple[str, int], number: int) -> None:
        held = self._queues[key]
        del held[number]
        if not held:
            del self._queues[key]
        self._count -= 1
