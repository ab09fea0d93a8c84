"""Queue offsets whose record is lost: without a unit there, the queue would end for every reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE, PRE_BLANK_SIZE, UNIT_SIZE
from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.views.queues.claimed_places import MAX_QUEUE_OFFSET, rows_refuted
from rocketflow_store.views.queues.consume_queue import pre_blank, written
from rocketflow_store.views.queues.placeholder import placeholder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.placeholder import LogExtent

    Units = npt.NDArray[np.void]
    Ints = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 14
_NEIGHBOUR: Final = 64


def drop_strays(rows: DispatchRows) -> None:
    """Take records whose queue offset other records refute out of the queues: their heads are damaged.

    The rows must be of consecutive records of the log, in which a queue's offsets have no gaps.
    """
    drop_impossible(rows)
    order = np.argsort(rows.queue_of, kind="stable")
    counts = None if rows.batch_nums is None else rows.batch_nums[order]
    stray = _refuted(rows.queue_offsets[order], rows.phy_offsets[order], rows.queue_of[order], counts)
    rows.queue_of[order[stray]] = -1
    drop_lmq_strays(rows)


def drop_impossible(rows: DispatchRows) -> None:
    """Take records with an impossible queue offset out of the queues: too few records fit into the log before them."""
    wrong = (rows.queue_offsets < 0) | (rows.queue_offsets >= MAX_QUEUE_OFFSET)
    if rows.batch_nums is None:
        wrong |= rows.queue_offsets > rows.phy_offsets // MIN_RECORD_SIZE
    rows.queue_of[wrong] = -1


def drop_lmq_strays(rows: DispatchRows) -> None:
    """Take records out of LMQs in which they claim an offset far from their neighbours'."""
    if rows.lmq:
        names = {name: code for code, name in enumerate({name for _, name, _ in rows.lmq})}
        order = sorted(range(len(rows.lmq)), key=lambda at: (names[rows.lmq[at][1]], at))
        offsets = np.array([rows.lmq[at][2] for at in order], np.int64)
        stray = _far_offsets(offsets, np.array([names[rows.lmq[at][1]] for at in order], np.int32))
        dropped = {at for at, is_stray in zip(order, stray.tolist(), strict=True) if is_stray}
        if dropped:
            rows.lmq = [one for at, one in enumerate(rows.lmq) if at not in dropped]


def drop_deleted(rows: DispatchRows, floors: Mapping[str, int]) -> None:
    """Take records of deleted topics, those before the `floors` of their names, out of the queues."""
    if not floors:
        return
    for code, (topic, _) in enumerate(rows.queues):
        floor = floors.get(topic, 0)
        if floor:
            rows.queue_of[(rows.queue_of == code) & (rows.phy_offsets < floor)] = -1
    if any(name in floors for _, name, _ in rows.lmq):
        rows.lmq = [one for one in rows.lmq if int(rows.phy_offsets[one[0]]) >= floors.get(one[1], 0)]


def _refuted(
    offsets: Ints, phy_offsets: Ints, queue_of: npt.NDArray[np.int32], counts: Ints | None
) -> npt.NDArray[np.bool_]:
    """Return a mask of the records, sorted by queue, whose queue offset others of the queue refute."""
    found = np.zeros(len(offsets), bool)
    broken = np.diff(offsets) != (1 if counts is None else counts[:-1])
    broken &= (queue_of[1:] == queue_of[:-1]) & (queue_of[1:] >= 0)
    for code in np.unique(queue_of[1:][broken]).tolist():
        low, high = np.searchsorted(queue_of, [code, code + 1]).tolist()
        mine = slice(low, high)
        found[mine] = rows_refuted(offsets[mine], phy_offsets[mine], None if counts is None else counts[mine])
    return found


def _far_offsets(offsets: Ints, queue_of: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return a mask of queue offsets that are far from those before or after them, of the same queue.

    Records of an LMQ may share an offset or skip others, if no units were requested for them.
    """
    step = np.diff(offsets)
    step[queue_of[1:] != queue_of[:-1]] = 1
    stray: npt.NDArray[np.bool_] = offsets < 0
    stray[1:] |= step > _NEIGHBOUR
    stray[:-1] |= step < -_NEIGHBOUR
    return stray


def fill_gaps(queue: ConsumeQueue, end: int, damage: Sequence[tuple[int, int]], log: LogExtent) -> int:
    """Write a unit at every empty queue offset below `end`; return how many there were.

    The unit points at the damage (ranges of physical offsets, ascending) between the records of its neighbours, so that
    a reader reports the lost bytes. Without damage there the message is lost as well: its record claims another queue
    offset. In an LMQ that is no loss, and the unit is only a filler.
    """
    filled, before = 0, (-1, 0)
    start = queue.first_unit
    while start < end:
        units = queue.units_or_zeros(start, min(start + _BLOCK, end))
        empty = ~written(units)
        if empty.any():
            rows = np.flatnonzero(empty)
            for run in np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1):
                first, last = int(run[0]), int(run[-1])
                before = _last_place(units[:first], before)
                unit = _unit(before[0], _ceiling(queue, start + last + 1, units[last + 1 :], end), damage)
                if pre_blank(unit)[0] and before[0] >= log.begin and not queue.topic.startswith(LMQ_PREFIX):
                    unit["phy_offset"], unit["msg_size"] = placeholder(queue.topic, before, log)
                    unit["tags_code"] = LOST_TAGS_CODE
                units[run] = unit
                queue.put(start + first, units[run])
                filled += len(run)
        before = _last_place(units, before)
        start += len(units)
    return filled


def fill_head(queue: ConsumeQueue, first: int, end: int, damage: Sequence[tuple[int, int]], log: LogExtent) -> None:
    """Write units for lost messages at the queue offsets `[first, end)` before a queue's first message."""
    unit = _unit(log.begin - 1, _ceiling(queue, end, queue.units(end, end + 1), end + 1), damage)
    if pre_blank(unit)[0]:
        unit["phy_offset"], unit["msg_size"] = placeholder(queue.topic, (-1, 0), log)
        unit["tags_code"] = LOST_TAGS_CODE
    _put_in_each(queue, first, end, unit)


def _last_place(units: Units, before: tuple[int, int]) -> tuple[int, int]:
    """Return the (physical offset, size) of the last real unit, else `before`."""
    real = np.flatnonzero(written(units) & ~pre_blank(units))
    return (int(units["phy_offset"][real[-1]]), int(units["msg_size"][real[-1]])) if len(real) else before


def lost_slots(queue: ConsumeQueue, start: int, end: int, damage: Sequence[tuple[int, int]], log: LogExtent) -> None:
    """Write units for lost messages at the queue offsets `[start, end)` after a queue's last message.

    They point at the damage after the last message, or at a placeholder if the bytes are missing.
    """
    units = queue.units(max(start - 1, queue.first_unit), start)
    real = units[~pre_blank(units)] if len(units) else units
    before = (int(real["phy_offset"][-1]), int(real["msg_size"][-1])) if len(real) else (-1, 0)
    unit = _unit(before[0], -1, damage)
    if unit["msg_size"][0] == PRE_BLANK_SIZE or int(unit["phy_offset"][0]) >= log.end:
        unit["phy_offset"], unit["msg_size"] = placeholder(queue.topic, before, log)
    unit["tags_code"] = LOST_TAGS_CODE
    _put_in_each(queue, start, end, unit)


def blank_slots(queue: ConsumeQueue, start: int, end: int) -> None:
    """Write fillers at the queue offsets `[start, end)`: their messages were removed."""
    _put_in_each(queue, start, end, _unit(-1, -1, ()))


def _put_in_each(queue: ConsumeQueue, start: int, end: int, unit: Units) -> None:
    for first in range(start, end, _BLOCK):
        queue.put(first, np.repeat(unit, min(_BLOCK, end - first)))


def _ceiling(queue: ConsumeQueue, following: int, rest: Units, end: int) -> int:
    """Return the physical offset of the first record after a gap; -1 if there is none."""
    while True:
        good = np.flatnonzero(written(rest) & ~pre_blank(rest))
        if len(good):
            return int(rest["phy_offset"][good[0]])
        following += len(rest)
        rest = queue.units_or_zeros(following, min(following + _BLOCK, end))
        if len(rest) == 0:
            return -1


def _unit(floor: int, ceiling: int, damage: Sequence[tuple[int, int]]) -> Units:
    unit = np.zeros(1, UNIT_DTYPE)
    unit["msg_size"] = PRE_BLANK_SIZE
    for start, stop in damage:
        if start > floor and (ceiling < 0 or start < ceiling):
            unit["phy_offset"], unit["msg_size"] = start, min(stop - start, PRE_BLANK_SIZE - 1)
            break
    return unit


assert UNIT_DTYPE.itemsize == UNIT_SIZE
