"""Queue offset by store time: the look-up of RocketMQ 5 (lower and upper bound) and that of 4.9 (nearest).

4.9 takes the first ConsumeQueue file whose modification time is at or behind the wanted time, and bisects that one
file. Modification times do not outlive a copy or an archive, and for a mapped file the system sets them when a page is
first touched, not at the last put; 4.9 then looks in a wrong file and is not nearest at all. The file is therefore
taken by the store time of its last message; pass `modified_ms` to have 4.9's own choice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from rocketflow_store.errors import StoreConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeBoundary(StrEnum):
    """Which message answers for a time at which none was stored."""

    LOWER = "lower"
    """The first at or behind the time; the end of the queue where there is none."""
    UPPER = "upper"
    """The last at or before the time; the first of the queue where there is none."""
    NEAREST = "nearest"
    """As RocketMQ 4.9: the one closest in time, the earlier of two equally close ones."""

    @classmethod
    def parse(cls, value: str) -> TimeBoundary:
        """The boundary of that name; StoreConfigError for another one."""
        try:
            return cls(value)
        except ValueError as error:
            raise StoreConfigError("boundary", value, f"use one of {', '.join(cls)}") from error


def offset_by_time(
    store_timestamp: Callable[[int], int],
    low: int,
    high: int,
    units_per_file: int,
    timestamp_ms: int,
    boundary: TimeBoundary,
    modified_ms: Callable[[int], int] | None = None,
) -> int:
    """The queue offset in [low, high] for a time; `store_timestamp(offset)` is in ms, -1 where no record is.

    `modified_ms(n)`, for NEAREST, is the time by which the file with units [n, n + 1) * units_per_file is chosen.
    """
    if low >= high:
        return low
    if boundary is TimeBoundary.NEAREST:
        file_time_ms = modified_ms or (lambda number: store_timestamp((number + 1) * units_per_file - 1))
        numbers = range(low // units_per_file, (high - 1) // units_per_file + 1)
        number = next((one for one in numbers[:-1] if file_time_ms(one) >= timestamp_ms), numbers[-1])
        begin, end = number * units_per_file, min(high, (number + 1) * units_per_file)
        found = _nearest(lambda place: store_timestamp(begin + place), max(low - begin, 0), end - begin, timestamp_ms)
        return low if found < 0 else begin + found
    start, end = low, high
    while start < end:  # first offset whose store time is at or behind the wanted one (or, for upper, behind it)
        middle = (start + end) // 2
        time = store_timestamp(middle)
        if time < timestamp_ms or (boundary is TimeBoundary.UPPER and time == timestamp_ms):
            start = middle + 1
        else:
            end = middle
    return start if boundary is TimeBoundary.LOWER else max(start - 1, low)


def _nearest(store_timestamp: Callable[[int], int], start: int, stop: int, timestamp_ms: int) -> int:
    """The position of a file's units [start, stop) closest in time; -1 where a record is missing.

    Which one of several equal times is hit depends on the steps, so they are RocketMQ's.
    """
    before, behind, time_before, time_behind = -1, -1, -1, -1
    end = stop - 1
    while start <= end:
        middle = (start + end) // 2
        time = store_timestamp(middle)
        if time < 0:
            return -1
        if time == timestamp_ms:
            return middle
        if time > timestamp_ms:
            end, behind, time_behind = middle - 1, middle, time
        else:
            start, before, time_before = middle + 1, middle, time
    if before < 0:
        return behind
    if behind < 0:
        return before
    return behind if timestamp_ms - time_before > time_behind - timestamp_ms else before
