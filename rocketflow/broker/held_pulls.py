"""Pulls that wait for messages, without I/O: times are milliseconds that the caller passes in.

RocketMQ's source: broker/longpolling/PullRequestHoldService.java, ManyPullRequest.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

LIMIT: Final = 100_000

P = TypeVar("P")


class HeldPull(NamedTuple, Generic[P]):
    """A pull of a queue that waits for messages from `offset` until `deadline_ms`.

    `tags_codes` are those that it reads, None for all.
    """

    pull: P
    offset: int
    tags_codes: frozenset[int] | None
    deadline_ms: int


class HeldPulls(Generic[P]):
    """Pulls that wait, by topic and queue; at most LIMIT."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], list[HeldPull[P]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, topic: str, queue_id: int, held: HeldPull[P]) -> bool:
        """Let a pull wait; return False if too many do."""
        if self._count >= LIMIT:
            return False
        self._queues.setdefault((topic, queue_id), []).append(held)
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

    def drop(self, is_unwanted: Callable[[P], bool]) -> None:
        """Remove the pulls whose client has left."""
        for key in list(self._queues):
            self._take(key, lambda one: is_unwanted(one.pull))

    def all(self) -> list[P]:
        """Remove and return all pulls."""
        return [pull for key in list(self._queues) for pull in self._take(key, lambda one: True)]

    def _take(self, key: tuple[str, int], is_wanted: Callable[[HeldPull[P]], bool]) -> list[P]:
        held = self._queues.get(key)
        if not held:
            return []
        taken = [one.pull for one in held if is_wanted(one)]
        if taken:
            rest = [one for one in held if not is_wanted(one)]
            self._count -= len(taken)
            if rest:
                self._queues[key] = rest
            else:
                del self._queues[key]
        return taken
