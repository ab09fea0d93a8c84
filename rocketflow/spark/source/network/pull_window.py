"""One range of a queue, several pulls at a time: answers are given out in order, the next ones are under way."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

MOST_BYTES: Final = 4 << 20
"""Answers that have arrived are given out together up to this many bytes."""


class Pulled(NamedTuple):
    """An answer: records from the offset asked for on, and the offset after the last one that was looked at."""

    data: bytes
    next_offset: int
    skipped: tuple[tuple[int, int, str], ...] = ()
    """Offsets [start, end) that the broker says it skipped, and why."""


class Piece(NamedTuple):
    """Records of the queue offsets [start, end)."""

    data: bytes
    start: int
    end: int
    skipped: tuple[tuple[int, int, str], ...] = ()


Pull = Callable[[int, int], Awaitable[Pulled]]
"""(start, end) -> the records of the first offsets of [start, end), one or more; `next_offset` is beyond `start`."""


class PullWindow:
    """Pulls [start, end) with up to `at_once` requests under way, each for up to `most_rows` messages.

    A broker ends an answer by bytes too: a request then asks for fewer messages, so that few of them are repeated.
    """

    def __init__(self, pull: Pull, start: int, end: int, *, most_rows: int, at_once: int) -> None:
        self._pull = pull
        self._next, self._end = start, end
        self._rows = self._most_rows = most_rows
        self._at_once = at_once
        self._waiting: deque[tuple[int, int, asyncio.Task[Pulled]]] = deque()

    async def take(self) -> Piece | None:
        """Return the next records: those that have arrived, or the next ones to arrive; None at the range's end.

        Raises what the next pull has raised, once all records before it were returned.
        """
        self._fill()
        if not self._waiting:
            return None
        begin = reached = self._waiting[0][0]
        parts: list[bytes] = []
        skipped: tuple[tuple[int, int, str], ...] = ()
        size = 0
        while self._waiting and (not parts or (_has_arrived(self._waiting[0][2]) and size < MOST_BYTES)):
            start, end, task = self._waiting.popleft()
            pulled = await task
            parts.append(pulled.data)
            skipped += pulled.skipped
            size += len(pulled.data)
            reached = min(pulled.next_offset, end)
            if reached < end:
                self._rows = max(reached - start, 1)
                self._waiting.appendleft(self._asked(reached, end))
            else:
                self._rows = min(max(self._rows, 2 * (end - start)), self._most_rows)
        self._fill()
        return Piece(parts[0] if len(parts) == 1 else b"".join(parts), begin, reached, skipped)

    async def close(self) -> None:
        """Cancel what is under way."""
        for _, _, task in self._waiting:
            task.cancel()
        for _, _, task in self._waiting:
            with suppress(asyncio.CancelledError, Exception):
                await task
        self._waiting.clear()

    def _fill(self) -> None:
        while self._next < self._end and len(self._waiting) < self._at_once:
            end = min(self._next + self._rows, self._end)
            self._waiting.append(self._asked(self._next, end))
            self._next = end

    def _asked(self, start: int, end: int) -> tuple[int, int, asyncio.Task[Pulled]]:
        return start, end, asyncio.ensure_future(self._pull(start, end))


def _has_arrived(answer: asyncio.Task[Pulled]) -> bool:
    return answer.done() and not answer.cancelled() and answer.exception() is None
