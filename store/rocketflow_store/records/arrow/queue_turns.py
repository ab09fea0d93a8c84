"""Whose turn it is: rows and messages that name no queue go to a topic's queues one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class QueueTurns(dict[str, int]):
    """The next turn by topic; queue = turn modulo the topic's number of queues.

    `first_turn(topic)` is where the turns of a topic begin. It has to follow from what is written and where, so that a
    replay gives the same queues, and has to move from batch to batch, so that small batches spread over all queues.
    """

    def __init__(self, first_turn: Callable[[str], int] = lambda _: 0) -> None:
        super().__init__()
        self._first_turn = first_turn

    def __missing__(self, topic: str) -> int:
        turn = self[topic] = self._first_turn(topic)
        return turn
