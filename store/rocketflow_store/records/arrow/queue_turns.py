"""Round-robin turns: rows and messages that name no queue go to a topic's queues one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class QueueTurns(dict[str, int]):
    """The next turn by topic; queue = turn modulo the topic's number of queues.

    `first_turn(topic)` returns the first turn of a topic. It must be a function of the rows and their place, so that a
    replay uses the same queues, and must differ from batch to batch, so that small batches are spread over all queues.
    """

    def __init__(self, first_turn: Callable[[str], int] = lambda _: 0) -> None:
        super().__init__()
        self._first_turn = first_turn

    def __missing__(self, topic: str) -> int:
        turn = self[topic] = self._first_turn(topic)
        return turn
