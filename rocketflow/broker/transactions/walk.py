"""Decisions about half messages, and the progress through their queue, without I/O: times are arguments.

RocketMQ's source: broker/transaction/queue/TransactionalMessageServiceImpl.java (check, needDiscard, needSkip).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rocketflow.broker.transactions.messages import Half


class Rules(NamedTuple):
    """Settings: times in ms, how often a producer is asked, and the bytes of an op mark."""

    timeout_ms: int
    check_max: int
    reserved_ms: int
    max_mark_bytes: int = 4_096


class Decision(Enum):
    """Action on an undecided half message."""

    CHECK = auto()
    EXPIRE = auto()
    WAIT = auto()
    STOP = auto()
    """It is too young, and those after it are younger."""


def decide(half: Half, rules: Rules, now_ms: int, round_ms: int) -> Decision:
    """Return what to do with a half message in a round that began at `round_ms`.

    Unlike RocketMQ, a message with its own immunity time stays where it is until then, and its checks are not counted
    meanwhile.
    """
    message = half.stored.message
    age_ms = now_ms - message.born_ms
    if half.checks >= rules.check_max or age_ms > rules.reserved_ms:
        return Decision.EXPIRE
    if half.stored.store_ms >= round_ms:
        return Decision.STOP
    if half.immunity_s is not None:
        return Decision.WAIT if age_ms <= half.immunity_s * 1000 else Decision.CHECK
    return Decision.STOP if 0 <= age_ms <= rules.timeout_ms else Decision.CHECK


def ends_too_late(half: Half, rules: Rules, now_ms: int) -> bool:
    """Return whether a producer may no longer end a transaction unasked: its own immunity time has passed."""
    if half.immunity_s is None:
        return False
    return now_ms - half.stored.message.born_ms > max(half.immunity_s * 1000, rules.timeout_ms)


class Waiting(NamedTuple):
    """A half message that was passed undecided: when it is due (ms), and its first offset if it is such a copy."""

    due_ms: int
    first_offset: int | None


class Walk:
    """Progress of the decisions about the half queue.

    `next_offset` is the first half offset that was not looked at. Those before it are decided, but for the waiting
    ones.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._waiting: dict[int, Waiting] = {}

    @property
    def first_undecided(self) -> int:
        """Return the half offset from which half messages have to be read after a restart."""
        return min([*self._waiting, self.next_offset])

    def has_decided(self, half_offset: int) -> bool:
        """Return whether the half message at an offset is decided: by a mark, a copy or as expired."""
        return half_offset < self.next_offset and half_offset not in self._waiting

    def wait(self, half: Half, due_ms: int) -> None:
        """Keep a half message undecided, to be looked at again at `due_ms`."""
        self._waiting[half.stored.queue_offset] = Waiting(due_ms, half.first_offset)

    def due(self, now_ms: int) -> list[int]:
        """Return the offsets of waiting half messages that are due, in order."""
        return sorted(offset for offset, one in self._waiting.items() if one.due_ms <= now_ms)

    def decided(self, offsets: Iterable[int]) -> None:
        """Forget half messages that wait no longer."""
        for offset in offsets:
            self._waiting.pop(offset, None)

    def begin_at(self, low: int) -> None:
        """Forget half messages before the queue's first, which retention has removed."""
        self.next_offset = max(self.next_offset, low)
        self.decided([offset for offset in self._waiting if offset < low])

    def drop_marked(self, is_marked: Callable[[int], bool]) -> None:
        """Forget the waiting half messages that have been ended, at their own offset or at their first."""
        self.decided(
            [
                offset
                for offset, (_, first) in self._waiting.items()
                if is_marked(offset) or (first is not None and is_marked(first))
            ]
        )


def due_ms(half: Half, rules: Rules) -> int:
    """Return when a waiting half message has to be looked at again."""
    own_ms = rules.timeout_ms if half.immunity_s is None else half.immunity_s * 1000
    return half.stored.message.born_ms + min(own_ms, rules.reserved_ms) + 1
