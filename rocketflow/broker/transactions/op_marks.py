"""Half messages that op marks name, without I/O.

RocketMQ's source: broker/transaction/queue/TransactionalMessageServiceImpl.java (fillOpRemoveMap,
calculateOpOffset).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class OpMark(NamedTuple):
    """A message of the op queue: its offset there, and the half offsets that it names.

    The first `commits` of them were committed, the others rolled back; None for marks that do not say it.
    """

    offset: int
    half_offsets: Sequence[int]
    commits: int | None = None


class OpMarks:
    """The marks read since the first half message that is not decided.

    `next_offset` is the op queue's offset to read from. A mark may name a half message that the walk has passed: it
    counts for copies that name their first offset. So marks are kept until the walk has passed all half messages that
    existed when they were read.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._read: list[tuple[int, set[int]]] = []
        self._noted: set[int] = set()
        self._open: deque[tuple[int, int]] = deque()

    def begin_round(self) -> None:
        """Drop what was noted before: it is in the op queue by now."""
        self._noted = set()

    def note(self, half_offsets: Iterable[int]) -> None:
        """Take half messages whose mark has just been stored."""
        self._noted.update(half_offsets)

    def add(self, marks: Sequence[OpMark], next_offset: int, half_end: int) -> None:
        """Take marks that were read up to `next_offset`, while the half queue ended at `half_end`."""
        found = {one for mark in marks for one in mark.half_offsets}
        if found:
            self._read.append((half_end, found))
        self._open.extend((mark.offset, max(mark.half_offsets, default=-1)) for mark in marks)
        self.next_offset = next_offset

    def __contains__(self, half_offset: int) -> bool:
        if half_offset in self._noted:
            return True
        return bool(self._read) and any(half_offset in found for _, found in self._read)

    def have_any(self, half_offsets: Sequence[int]) -> bool:
        """Return whether one of some half messages is marked."""
        return not (
            self._noted.isdisjoint(half_offsets) and all(found.isdisjoint(half_offsets) for _, found in self._read)
        )

    def forget(self, next_half: int) -> None:
        """Drop marks that no half message from `next_half` on can need."""
        self._read = [one for one in self._read if one[0] > next_half]

    def first_needed(self, first_half: int) -> int:
        """Return the op offset from which marks have to be read again while half messages begin at `first_half`."""
        while self._open and self._open[0][1] < first_half:
            self._open.popleft()
        return self._open[0][0] if self._open else self.next_offset
