"""Find the first message of a queue that retention left, without relying on any single unit.

The physical offsets in a queue's units rise. Retention removes the begin of the log, so the removed messages of a queue
are those whose units point before it. A unit may be missing (zeros), filled (a pre-blank one in a gap) or damaged: a
search that relied on such a unit would hide every message before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.views.queues.consume_queue import pre_blank, written

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.views.queues.consume_queue import ConsumeQueue, Units

_NEAR: Final = 1024
"""So many units on both sides of a result must agree with it."""
_BLOCK: Final = 1 << 16


def first_kept(queue: ConsumeQueue, end: int, floor: int) -> int:
    """Return the first queue offset before `end` that follows every unit pointing before `floor`, or `end`."""
    first = _after_fill(queue, end)
    if floor <= 0 or first >= end:
        return first
    found = _bisect(queue, first, end, floor)
    return found if _agree(queue, first, found, end, floor) else _best_cut(queue, first, end, floor)


def first_place(queue: ConsumeQueue) -> int:
    """Return the physical offset in the first real unit of a queue, -1 if it has none."""
    at, unit = _next_real(queue, queue.first_unit, queue.end_of_files)
    return int(unit["phy_offset"]) if at < queue.end_of_files else -1


def _after_fill(queue: ConsumeQueue, end: int) -> int:
    """Return the first unit that is not a filler before the queue's first message."""
    start, block = queue.first_unit, 1
    while start < end:
        units = queue.units_or_zeros(start, min(start + block, end))
        others = np.flatnonzero(~pre_blank(units))
        if len(others):
            return start + int(others[0])
        start += len(units)
        block = min(block * 16, _BLOCK)
    return end


def _bisect(queue: ConsumeQueue, first: int, end: int, floor: int) -> int:
    """Return the number after the last unit that points before `floor`, by a binary search of single units."""
    start, stop = first, end
    while start < stop:
        middle = (start + stop) // 2
        at, unit = _next_real(queue, middle, stop)
        if at < stop and int(unit["phy_offset"]) < floor:
            start = at + 1
        else:
            stop = middle
    return start


def _next_real(queue: ConsumeQueue, start: int, stop: int) -> tuple[int, np.void]:
    """Return the number of the first unit of `[start, stop)` that points at a record, and the unit.

    Without such a unit the number is `stop`.
    """
    while True:
        start, units = queue.next_written(start, stop)
        if start >= stop:
            return stop, np.void(0)
        real = np.flatnonzero(_is_real(units))
        if len(real):
            return start + int(real[0]), units[real[0]]
        start += len(units)


def _is_real(units: Units) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = written(units) & ~pre_blank(units)
    return mask


def _agree(queue: ConsumeQueue, first: int, found: int, end: int, floor: int) -> bool:
    """Return True if no unit near `found` contradicts it: they point before `floor` below it, and not from it on."""
    start = max(found - _NEAR, first)
    units = queue.units_or_zeros(start, min(found + _NEAR, end))
    removed = units["phy_offset"].astype(np.int64) < floor
    misfit = removed != (np.arange(start, start + len(units)) < found)
    return not bool((misfit & _is_real(units)).any())


def _best_cut(queue: ConsumeQueue, first: int, end: int, floor: int) -> int:
    """Return the cut that most units agree with: they point before `floor` below it, and not from it on."""
    best, best_at, balance = 0, first, 0
    for start in range(first, end, _BLOCK):
        units = queue.units_or_zeros(start, min(start + _BLOCK, end))
        removed = units["phy_offset"].astype(np.int64) < floor
        steps = np.where(_is_real(units), np.where(removed, -1, 1), 0)
        sums = balance + np.cumsum(steps)
        lowest = int(sums.argmin())
        if int(sums[lowest]) < best:
            best, best_at = int(sums[lowest]), start + lowest + 1
        balance = int(sums[-1])
    return best_at
