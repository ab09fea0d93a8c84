"""Pure planning: the end of a batch within its limits, and the division of its ranges into tasks.

No function here uses a store or a clock: sizes and times are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow.spark.source.stream_offset import QueueKey

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS_WORTH_A_TASK: Final = 20_000
"""A task with fewer rows costs more (about 50 ms) than it saves."""

_SNAP_SHARE: Final = 8
"""A cut moves back to a ConsumeQueue file boundary within 1/8 of a task's share."""

RecordSizes = Callable[[QueueKey, int, int], "Sequence[int] | npt.NDArray[np.int64]"]
"""(queue, start, end) -> bytes of each record of the range."""


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Queue offsets [start, end) of one queue."""

    key: QueueKey
    start: int
    end: int

    @property
    def rows(self) -> int:
        return self.end - self.start


def ranges_between(starts: Mapping[QueueKey, int], ends: Mapping[QueueKey, int]) -> list[QueueRange]:
    """Return the ranges between two positions, sorted by queue; queues that did not move are omitted."""
    return [QueueRange(key, starts[key], ends[key]) for key in sorted(ends) if ends[key] > starts[key]]


def cut_by_rows(ranges: Sequence[QueueRange], limit: int) -> list[QueueRange]:
    """Shorten ranges from their ends to `limit` rows in all, fairly.

    Shares are in proportion to the waiting rows, so queues that were written side by side are read side by side. Every
    queue gets a row if the limit allows it, else the queues with the most waiting rows do.
    """
    total = sum(one.rows for one in ranges)
    if total <= limit:
        return list(ranges)
    if limit <= len(ranges):
        first = sorted(ranges, key=lambda one: (-one.rows, one.key))[: max(limit, 0)]
        return sorted(QueueRange(one.key, one.start, one.start + 1) for one in first)
    extra, waiting = limit - len(ranges), total - len(ranges)
    shares: list[int] = []
    remainders: list[tuple[int, int]] = []
    for at, one in enumerate(ranges):
        share, rest = divmod(extra * (one.rows - 1), waiting)
        shares.append(1 + share)
        remainders.append((-rest, at))
    for _, at in sorted(remainders)[: limit - sum(shares)]:
        shares[at] += 1
    return [QueueRange(one.key, one.start, one.start + share) for one, share in zip(ranges, shares, strict=True)]


def cut_by_bytes(ranges: Sequence[QueueRange], limit: int, sizes: RecordSizes) -> list[QueueRange]:
    """Shorten ranges to `limit` bytes of records in all, fairly; a first record larger than that still passes.

    Sizes are read no further than the limit reaches. The unused share of a queue goes to the others.
    """
    ends = {one.key: one.start for one in ranges}
    open_ranges = list(ranges)
    left = limit
    while open_ranges and left > 0:
        total = sum(one.end - ends[one.key] for one in open_ranges)
        taken_now, still_open = 0, []
        for one in open_ranges:
            start = ends[one.key]
            share = max(left * (one.end - start) // total, 0)
            rows, taken = _rows_within(one.key, start, one.end, share, sizes)
            ends[one.key] = start + rows
            taken_now += taken
            if start + rows < one.end and rows:
                still_open.append(one)
        if taken_now == 0:
            break
        left -= taken_now
        open_ranges = still_open
    for one in ranges:
        start = ends[one.key]
        if start < one.end:
            rows, taken = _rows_within(one.key, start, one.end, left, sizes)
            ends[one.key] = start + rows
            left -= taken
    if ranges and all(ends[one.key] == one.start for one in ranges):
        widest = min(ranges, key=lambda one: (-one.rows, one.key))
        ends[widest.key] = widest.start + 1
    return [QueueRange(one.key, one.start, ends[one.key]) for one in ranges if ends[one.key] > one.start]


def _rows_within(key: QueueKey, start: int, end: int, budget: int, sizes: RecordSizes) -> tuple[int, int]:
    """Return the number of records from `start` that fit into `budget` bytes, and their bytes."""
    rows, taken, block = 0, 0, 1024
    while start + rows < end:
        block_end = min(start + rows + block, end)
        ends = np.cumsum(np.asarray(sizes(key, start + rows, block_end), np.int64)) + taken
        fitting = int(np.searchsorted(ends, budget, side="right"))
        if fitting:
            rows, taken = rows + fitting, int(ends[fitting - 1])
        if fitting < len(ends):
            break
        block = min(block * 4, 1 << 16)
    return rows, taken


@dataclass(slots=True)
class MinimumGate:
    """Holds a batch back until enough rows wait or the last one was too long ago.

    As in Spark's Kafka source, the first batch does not wait.
    """

    min_rows: int
    max_delay_ms: int
    last_trigger_ms: int | None = None

    def holds_back(self, waiting_rows: int, now_ms: int) -> bool:
        """Return True if a batch of `waiting_rows` must wait for more rows."""
        late = self.last_trigger_ms is None or now_ms - self.last_trigger_ms >= self.max_delay_ms
        if not late and waiting_rows < self.min_rows:
            return True
        self.last_trigger_ms = now_ms
        return False


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Limits of the division into tasks: about `cores` tasks unless the other two ask for more."""

    cores: int
    min_partitions: int | None = None
    max_records_per_partition: int | None = None

    def task_count(self, rows: int) -> int:
        """Return the number of tasks for `rows` rows; 0 for no rows."""
        if rows == 0:
            return 0
        count = min(max(self.cores, 1), -(-rows // ROWS_WORTH_A_TASK))
        if self.min_partitions is not None:
            count = max(count, self.min_partitions)
        if self.max_records_per_partition is not None:
            count = max(count, -(-rows // self.max_records_per_partition))
        return min(count, rows)


def plan_tasks(
    ranges: Sequence[QueueRange], limits: TaskLimits, units_per_file: Callable[[QueueKey], int] | None = None
) -> list[list[QueueRange]]:
    """Spread ranges over tasks of about equal rows, in order; each task's ranges are disjoint pieces of the input.

    A large range is cut where a task is full, or a little before at a ConsumeQueue file boundary.
    """
    left = sum(one.rows for one in ranges)
    count = limits.task_count(left)
    tasks: list[list[QueueRange]] = []
    task: list[QueueRange] = []
    room = -(-left // count) if count else 0
    for one in ranges:
        start = one.start
        while start < one.end:
            stop = min(one.end, start + room)
            if stop < one.end and units_per_file is not None:
                piece = QueueRange(one.key, start, stop)
                stop = _snapped(piece, left, count - len(tasks), limits, units_per_file(one.key))
            task.append(QueueRange(one.key, start, stop))
            left -= stop - start
            full = stop < one.end or stop - start == room
            room -= stop - start
            start = stop
            if full:
                tasks.append(task)
                task = []
                room = -(-left // max(count - len(tasks), 1))
    if task:
        tasks.append(task)
    return tasks


def _snapped(piece: QueueRange, left: int, tasks_left: int, limits: TaskLimits, units_per_file: int) -> int:
    """Return the piece's end, or the file boundary a little before it if the tasks that follow can take the rest."""
    start, stop = piece.start, piece.end
    boundary = stop - stop % units_per_file if units_per_file > 0 else stop
    if boundary <= start or stop - boundary > (stop - start) // _SNAP_SHARE or tasks_left < 2:
        return stop
    most = limits.max_records_per_partition
    if most is not None and left - (boundary - start) > most * (tasks_left - 1):
        return stop
    return boundary
