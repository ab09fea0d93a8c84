"""Queue offset by store time: the search of RocketMQ 5 (lower and upper bound) and that of 4.9 (nearest).

4.9 takes the first ConsumeQueue file whose modification time is at or after the wanted time, and bisects that one file.
Modification times do not survive a copy or an archive, and for a mapped file the system sets them when a page is first
touched, not at the last put; 4.9 then searches a wrong file and its result is not the nearest. The file is therefore
chosen by the store time of its last message; pass `modified_ms` to get 4.9's choice.

A record that cannot be read has no store time. A probe that meets one continues with the next readable one, so damage
moves the result by no more than the damaged records; `OffsetByTime.unreadable` names the records that may have been the
right one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    import numpy.typing as npt

    StoreTimestamps: TypeAlias = Callable[[int, int], Sequence[int] | npt.NDArray[np.int64]]
    """Store times in ms of the queue offsets [start, stop), -1 where no record can be read."""

_FIRST_BLOCK: Final = 32
_LAST_BLOCK: Final = 4096


class TimeBoundary(StrEnum):
    """The message to return for a time at which none was stored."""

    LOWER = "lower"
    """The first one at or after the time; the end of the queue if there is none."""
    UPPER = "upper"
    """The last one at or before the time; the first of the queue if there is none."""
    NEAREST = "nearest"
    """The one closest in time, as in RocketMQ 4.9; the earlier of two equally close ones."""

    @classmethod
    def parse(cls, value: str) -> TimeBoundary:
        """Return the boundary of that name; raise StoreConfigError for an unknown one."""
        try:
            return cls(value)
        except ValueError as error:
            raise StoreConfigError("boundary", value, f"use one of {', '.join(cls)}") from error


class OffsetByTime(NamedTuple):
    """Result of a search by time.

    The records at queue offsets `unreadable`, `[start, stop)` directly beside `offset`, have no readable store time:
    one of them may be the wanted one. The range is empty if no such record exists.
    """

    offset: int
    unreadable: tuple[int, int]


def offset_by_time(
    store_timestamps: StoreTimestamps,
    low: int,
    high: int,
    units_per_file: int,
    timestamp_ms: int,
    boundary: TimeBoundary,
    modified_ms: Callable[[int], int] | None = None,
) -> OffsetByTime:
    """Return the queue offset in [low, high] for a time, that of a readable record.

    `modified_ms(n)`, for NEAREST, is the time by which the file with units [n, n + 1) * units_per_file is chosen.
    """
    times = _Times(store_timestamps)
    if low >= high:
        return OffsetByTime(low, (low, low))
    if boundary is TimeBoundary.NEAREST:
        offset = _nearest(times, low, high, units_per_file, timestamp_ms, modified_ms)
        return OffsetByTime(offset, times.unreadable_around(low, offset, high))
    start, end = low, high
    while start < end:  # first record whose store time is at or after the wanted one (or, for upper, after it)
        middle = (start + end) // 2
        found = times.first(middle, end)
        if found is None:
            end = middle
        elif found.time < timestamp_ms or (boundary is TimeBoundary.UPPER and found.time == timestamp_ms):
            start = found.offset + 1
        else:
            end = middle
    if boundary is TimeBoundary.LOWER:
        found = times.first(start, high)
        offset = high if found is None else found.offset
        return OffsetByTime(offset, (times.after_last(low, offset), offset))
    found = times.last(low, start) or times.first(low, high)
    offset = low if found is None else found.offset
    return OffsetByTime(offset, (offset + 1, max(times.before_first(offset + 1, high), offset + 1)))


class _Stored(NamedTuple):
    offset: int
    time: int


class _Times:
    """Store times of one queue's records, read as they are needed."""

    def __init__(self, look: StoreTimestamps) -> None:
        self._look = look

    def first(self, start: int, stop: int) -> _Stored | None:
        """Return the first record of [start, stop) that can be read."""
        block = 1
        while start < stop:
            following = min(start + block, stop)
            times = np.asarray(self._look(start, following))
            good = np.flatnonzero(times >= 0)
            if len(good):
                return _Stored(start + int(good[0]), int(times[good[0]]))
            start, block = following, min(block * _FIRST_BLOCK, _LAST_BLOCK)
        return None

    def last(self, start: int, stop: int) -> _Stored | None:
        """Return the last record of [start, stop) that can be read."""
        block = 1
        while start < stop:
            before = max(stop - block, start)
            times = np.asarray(self._look(before, stop))
            good = np.flatnonzero(times >= 0)
            if len(good):
                return _Stored(before + int(good[-1]), int(times[good[-1]]))
            stop, block = before, min(block * _FIRST_BLOCK, _LAST_BLOCK)
        return None

    def after_last(self, start: int, stop: int) -> int:
        """Return the offset after the last readable record of [start, stop), or `start`."""
        found = self.last(start, stop)
        return start if found is None else found.offset + 1

    def before_first(self, start: int, stop: int) -> int:
        """Return the offset of the first readable record of [start, stop), or `stop`."""
        found = self.first(start, stop)
        return stop if found is None else found.offset

    def unreadable_around(self, low: int, offset: int, high: int) -> tuple[int, int]:
        """Return the range of unreadable records on both sides of `offset`, empty if its neighbours are readable."""
        start, stop = self.after_last(low, offset), self.before_first(offset + 1, high)
        return (start, stop) if stop - start > 1 else (offset, offset)


def _nearest(
    times: _Times,
    low: int,
    high: int,
    units_per_file: int,
    timestamp_ms: int,
    modified_ms: Callable[[int], int] | None,
) -> int:
    """Return the offset closest in time in the file that 4.9 would search; `low` if no record can be read."""
    start, stop = low, high
    for number in range(low // units_per_file, (high - 1) // units_per_file + 1):
        start, stop = max(number * units_per_file, low), min((number + 1) * units_per_file, high)
        if modified_ms is not None:
            file_time = modified_ms(number)
        else:
            last = times.last(start, stop)
            file_time = -1 if last is None else last.time
        if file_time >= timestamp_ms:
            break
    found = _nearest_in_file(times, start, stop, timestamp_ms)
    if found is None:
        beside = times.last(low, start) or times.first(stop, high)
        found = low if beside is None else beside.offset
    return found


def _nearest_in_file(times: _Times, start: int, stop: int, timestamp_ms: int) -> int | None:
    """Return the offset of [start, stop) closest in time; None if no record can be read.

    Which one of several equal times is found depends on the steps, so they are RocketMQ's.
    """
    before: _Stored | None = None
    after: _Stored | None = None
    while start < stop:
        middle = (start + stop - 1) // 2
        found = times.first(middle, stop)
        if found is None:
            stop = middle
        elif found.time == timestamp_ms:
            return found.offset
        elif found.time > timestamp_ms:
            stop, after = middle, found
        else:
            start, before = found.offset + 1, found
    if before is None:
        return None if after is None else after.offset
    if after is None:
        return before.offset
    return after.offset if timestamp_ms - before.time > after.time - timestamp_ms else before.offset
