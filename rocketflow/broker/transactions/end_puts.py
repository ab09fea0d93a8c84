"""Ends of transactions that are decided, put together: what commits store, and as few op marks as their limits allow.

RocketMQ's source: broker/transaction/queue/TransactionalOpBatchService.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rocketflow.aio.server import RefusedError
    from rocketflow.broker.transactions.marked_puts import MarkedPuts, Refuse
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import RawMessage, SentRun

MAX_COMMITS: Final = 256
MAX_COMMIT_BYTES: Final = 1024 * 1024
"""Half messages that one op mark ends, and the bytes of the bodies that it commits."""


class End(NamedTuple):
    """Half messages that are committed or rolled back together.

    `marked` are the half offsets that their op mark names. `message` is what a commit stores, None for a rollback.
    Either `done` is called with the result, or `refuse` with a refusal.
    """

    marked: Sequence[int]
    message: RawMessage | SentRun | None
    done: Callable[[PutMessageResult], None]
    refuse: Refuse

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the numbers that an op mark limits: half messages, bytes of their offsets, bytes of bodies."""
        mark_bytes = sum([len(str(offset)) + 1 for offset in self.marked])
        return len(self.marked), mark_bytes, 0 if self.message is None else self.message.body_size


class EndPuts:
    """Puts the ends of one iteration of the loop; an op mark has at most `max_mark_bytes` bytes."""

    def __init__(self, puts: MarkedPuts, max_mark_bytes: int) -> None:
        self._puts = puts
        self._limits = MAX_COMMITS, max_mark_bytes, MAX_COMMIT_BYTES
        self._ends: list[End] = []

    def add(self, end: End) -> None:
        """Put an end with the others of this iteration."""
        if not self._ends:
            asyncio.get_running_loop().call_soon(self._put_all)
        self._ends.append(end)

    def _put_all(self) -> None:
        ends, self._ends = self._ends, []
        group: list[End] = []
        sizes = 0, 0, 0
        for one in ends:
            own = one.size
            total = sizes[0] + own[0], sizes[1] + own[1], sizes[2] + own[2]
            if group and any(size > limit for size, limit in zip(total, self._limits)):
                self._put(group)
                group, total = [], own
            group.append(one)
            sizes = total
        self._put(group)

    def _put(self, ends: list[End]) -> None:
        """Store what commits store and the mark of all `ends`, and pass each its result."""
        ordered = sorted(ends, key=lambda one: one.message is None)
        messages = [one.message for one in ordered if one.message is not None]

        def done(results: list[PutMessageResult]) -> None:
            for one, result in zip(ordered, results, strict=True):
                one.done(result)

        def refuse(error: RefusedError) -> None:
            for one in ordered:
                one.refuse(error)

        self._puts.put(messages, [one.marked for one in ordered], done, refuse, len(messages))
