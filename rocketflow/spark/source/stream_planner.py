"""The driver's side of a stream: where it starts, where a batch ends, and which tasks read it.

One instance lives as long as the query run. The positions it returns are pure functions of the stores' contents and of
the options; `tasks` depends only on its arguments and the stores, so that a replay reads the same rows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from rocketflow.spark.source.data_loss import loss_of_range
from rocketflow.spark.source.group_progress import GroupProgress
from rocketflow.spark.source.lag import next_offsets
from rocketflow.spark.source.loss_guard import LossGuard
from rocketflow.spark.source.source_options import SourceOptions
from rocketflow.spark.source.starting_positions import resolve_positions
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stores import open_stores
from rocketflow.spark.source.stream_offset import QueueKey, QueuePosition, StreamOffset
from rocketflow.spark.source.stream_queues import Queues, StreamQueues
from rocketflow.spark.source.stream_report import StreamReport
from rocketflow.spark.source.task_planning import (
    MinimumGate,
    QueueRange,
    TaskLimits,
    cut_by_bytes,
    cut_by_rows,
    plan_tasks,
    ranges_between,
)
from rocketflow_store.spi.settings import Clock, SystemClock

_LONG_POLL_S: Final = 0.1
_FIRST_PAUSE_S: Final = 0.001


class StreamPlanner:
    """Offsets and tasks of one query run over one or many stores."""

    def __init__(
        self,
        options: SourceOptions,
        clock: Clock | None = None,
        pause: Callable[[float], None] = time.sleep,
        long_poll_s: float = _LONG_POLL_S,
    ) -> None:
        self._options = options
        self._stores = open_stores(options)
        self._queues = StreamQueues(options, self._stores)
        self._losses = LossGuard(self._stores, fail=options.fail_on_data_loss)
        self._report = StreamReport(self._stores)
        self._clock = clock or SystemClock()
        self._pause, self._long_poll_s = pause, long_poll_s
        self._gate: MinimumGate | None = None
        if options.min_offsets_per_trigger is not None:
            self._gate = MinimumGate(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._limits = TaskLimits(
            len(os.sched_getaffinity(0)), options.min_partitions, options.max_records_per_partition
        )
        self._progress = GroupProgress(options.consumer_group, self._stores.publish) if options.consumer_group else None
        self._initial: StreamOffset | None = None
        self._target: dict[QueueKey, int] | None = None
        self._last_end: StreamOffset | None = None

    def initial(self) -> StreamOffset:
        """Return the start of a query without a checkpoint; the same for every call."""
        if self._initial is None:
            self._stores.check()
            queues = self._queues.bounds()
            starts = resolve_positions(
                self._options.starting,
                queues,
                self._stores.start_by_time,
                clamp=not self._options.fail_on_data_loss,
                named=self._options.topics.named,
            )
            positions = {key: self._stores.position(key, starts[key], queues[key].low) for key in sorted(queues)}
            self._initial = StreamOffset(positions)
        return self._initial

    def prepare_available_now(self) -> None:
        """Ignore all messages that are stored from now on."""
        self._target = {key: bounds.high for key, bounds in self._queues.bounds().items()}

    def latest(self, start: StreamOffset, *, limited: bool) -> StreamOffset | None:
        """Return the end of the batch that begins at `start`, or None if there is none (yet).

        Only `Trigger.Once` asks without limits.

        Waits up to `long_poll_s` for new messages instead of returning at once, because Spark repeats the call.
        """
        start = self._stores.adopted(start)
        self._queues.check(start)
        if self._progress is not None:
            self._progress.publish(next_offsets(start))
        waited, pause = 0.0, _FIRST_PAUSE_S
        while True:
            end = self._look(start, limited=limited)
            if end is not None or self._target is not None or waited >= self._long_poll_s:
                self._last_end = end or start
                return end
            self._pause(pause)
            waited += pause
            pause = min(pause * 2, self._stores.last_pause_s)

    def _look(self, start: StreamOffset, *, limited: bool) -> StreamOffset | None:
        queues = self._queues.bounds()
        generations = {name: self._stores.generation(name) for name in self._stores.names()}
        resumed = self._losses.resume(start, queues, generations)
        self._queues.check_missing(queues, start, ends_by_itself=self._target is not None or not limited)
        starts = self._starts(start, queues, resumed)
        ends = {key: self._end_of(key, bounds) for key, bounds in queues.items() if key in starts}
        waiting = ranges_between(starts, ends)
        ranges = self._within_limits(waiting) if limited else waiting
        if ranges is None:
            return None
        reached = {one.key: one.end for one in ranges}
        if not reached and not resumed:
            return None
        positions: dict[QueueKey, QueuePosition] = {}
        for key in sorted(starts.keys() & queues.keys()):
            position = start.positions.get(key)
            if position is not None and key not in reached and key not in resumed:
                positions[key] = position.without_first()
                continue
            found = self._stores.position(key, reached.get(key, starts[key]), queues[key].low)
            if position is None:
                found = QueuePosition(found.next_offset, found.phy_offset, found.checksum, starts[key])
            positions[key] = found
            self._losses.note_verified(key, found, queues[key].high, generations[key.store])
        end = StreamOffset(positions)
        return None if end.positions == start.positions else end

    def _starts(self, start: StreamOffset, queues: Queues, resumed: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        """Return the offset at which each queue continues; a new queue starts at its first message."""
        starts = {key: resumed.get(key, position.next_offset) for key, position in start.positions.items()}
        for key, bounds in queues.items():
            if key not in starts and bounds.high > bounds.low and (self._target is None or key in self._target):
                starts[key] = bounds.low
        return starts

    def _within_limits(self, ranges: list[QueueRange]) -> list[QueueRange] | None:
        """Return the part of the ranges that one trigger takes, or None while it waits for more rows."""
        gate = self._gate if self._target is None else None
        if gate is not None and gate.holds_back(sum(one.rows for one in ranges), self._clock.now_ms()):
            return None
        if self._options.max_offsets_per_trigger is not None:
            ranges = cut_by_rows(ranges, self._options.max_offsets_per_trigger)
        if self._options.max_bytes_per_trigger is not None:
            ranges = cut_by_bytes(ranges, self._options.max_bytes_per_trigger, self._stores.record_sizes)
        return ranges

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[list[QueueRange]]:
        """Return the tasks that read the messages between two positions; none for a reset, which skips them."""
        start, end = self._stores.adopted(start), self._stores.adopted(end)
        self._queues.check(start)
        if end.resets:
            return []
        queues = self._queues.bounds()
        self._losses.check(end, queues)
        starts: dict[QueueKey, int] = {}
        ends: dict[QueueKey, int] = {}
        for key, position in end.positions.items():
            before = start.positions.get(key)
            first = position.first_offset if position.first_offset is not None else 0
            starts[key] = before.next_offset if before is not None else first
            ends[key] = position.next_offset
        ranges = ranges_between(starts, ends)
        removed = [one for one in ranges if one.key in queues and one.start < queues[one.key].low]
        self._losses.accept([loss for one in removed if (loss := loss_of_range(one, queues[one.key])) is not None])
        if not self._options.fail_on_data_loss:
            ranges = [_inside(one, queues[one.key]) for one in ranges if one.key in queues]
        return plan_tasks([one for one in ranges if one.rows > 0], self._limits, self._stores.units_per_file)

    def report(self) -> dict[str, Any] | None:
        """Return each queue's lag after the newest batch and the accepted losses, or None before the first batch."""
        end = self._last_end
        if end is None:
            return None
        return self._report.report(end, self._queues.bounds(), self._losses.counted, self._clock.now_ms())

    def committed(self, end: StreamOffset) -> None:
        """Publish the group's offsets: Spark has finished everything before `end`."""
        if self._progress is not None:
            self._progress.publish(next_offsets(self._stores.adopted(end)))

    def _end_of(self, key: QueueKey, bounds: QueueBounds) -> int:
        return bounds.high if self._target is None else min(bounds.high, self._target.get(key, 0))


def _inside(one: QueueRange, bounds: QueueBounds) -> QueueRange:
    return QueueRange(one.key, max(one.start, bounds.low), min(one.end, bounds.high))
