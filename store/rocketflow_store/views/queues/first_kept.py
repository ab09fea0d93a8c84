"""The first message of a queue that retention left: found by units, none of which is believed alone.

The units of a queue point at places that rise. Retention removes the begin of the log, so a queue's first messages
are those whose units point before it. A unit may be missing (zeros), filled (a pre-blank one in a gap) or damaged:
a search that takes such a unit for an answer would hide every message before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.views.queues.consume_queue import pre_blank, written

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.views.queues.consume_queue import ConsumeQueue, Units

_NEAR: Final = 1024
"""So many units on both sides of an answer have to agree with it."""
_BLOCK: Final = 1 << 16


def first_kept(queue: ConsumeQueue, end: int, floor: int) -> int:
    """Return the first queue offset below `end` that follows every unit pointing before `floor`, or `end`."""
    first = _behind_fill(queue, end)
    if floor <= 0 or first >= end:
        return first
    found = _bisect(queue, first, end, floor)
    return found if _agree(queue, first, found, end, floor) else _best_cut(queue, first, end, floor)


def first_place(queue: ConsumeQueue) -> int:
    """Return the physical offset that the first unit of a queue points at, -1 if it has none that points anywhere."""
    at, unit = _next_real(queue, queue.first_unit, queue.end_of_files)
    return int(unit["phy_offset"]) if at < queue.end_of_files else -1


def _behind_fill(queue: ConsumeQueue, end: int) -> int:
    """Return the first unit that does not fill the room before the queue's first message."""
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
    """Return the number after the last unit that points before `floor`, as single units tell it."""
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
    """Return the number of the first unit of [start, stop) that points at a record, and it; `stop` if none does."""
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
    """Return whether the units around `found` are before `floor` below it, and none of them from it on."""
    start = max(found - _NEAR, first)
    units = queue.units_or_zeros(start, min(found + _NEAR, end))
    removed = units["phy_offset"].astype(np.int64) < floor
    misfit = removed != (np.arange(start, start + len(units)) < found)
    return not bool((misfit & _is_real(units)).any())


def _best_cut(queue: ConsumeQueue, first: int, end: int, floor: int) -> int:
    """Return where most units agree with a cut: before `floor` below it, and not from it on."""
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
