"""One queue of one topic: units of 20 bytes at `queue_offset * 20`, in files of a fixed size.

Units follow each other without a gap; the first invalid one (size 0) ends the queue. Bytes that a crash or a truncation
left after the end are not part of it: the owner of the queue derives the end from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE, PRE_BLANK_SIZE, PRE_BLANK_UNIT, UNIT_SIZE
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.views.queues.unit_files import UnitFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    Units = npt.NDArray[np.void]

_SCAN_LIMIT_BYTES: Final = 16_000
_NEAR_UNITS: Final = 64
"""A unit is searched for up to this distance from its expected position: damaged units mislead a binary search."""


def written(units: Units) -> npt.NDArray[np.bool_]:
    """Return a mask of the units that are not empty (real or pre-blank)."""
    mask: npt.NDArray[np.bool_] = (units["msg_size"] > 0) & (units["phy_offset"] >= 0)
    return mask


def pre_blank(units: Units) -> npt.NDArray[np.bool_]:
    """Return a mask of the units that only fill the space before a queue's first real one."""
    mask: npt.NDArray[np.bool_] = units["msg_size"] == PRE_BLANK_SIZE
    return mask


def lost(units: Units) -> npt.NDArray[np.bool_]:
    """Return a mask of the units of messages that are known to be lost."""
    mask: npt.NDArray[np.bool_] = units["tags_code"] == LOST_TAGS_CODE
    return mask


def out_of_order(units: Units) -> npt.NDArray[np.bool_]:
    """Return a mask of consecutive units that do not point after the previous unit, or not before the next.

    Records are dispatched in the log's order, so that one unit of each such pair is not the one that was written.
    """
    places, there = units["phy_offset"].astype(np.int64), written(units)
    falls = (places[1:] <= places[:-1]) & there[1:] & there[:-1]
    mask = np.zeros(len(units), np.bool_)
    mask[1:] |= falls
    mask[:-1] |= falls
    return mask


class ConsumeQueue(UnitFiles):
    """The units of (`topic`, `queue_id`); a unit's number is its queue offset."""

    __slots__ = ("queue_id", "topic")

    UNIT_DTYPE = UNIT_DTYPE
    UNIT_SIZE = UNIT_SIZE
    FILLER = PRE_BLANK_UNIT
    written = staticmethod(written)

    def __init__(self, directory: Path, topic: str, queue_id: int, file_size: int, *, write: bool) -> None:
        super().__init__(directory, file_size, write=write)
        self.topic, self.queue_id = topic, queue_id

    def steps(self, offset: int, high: int, max_count: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield (queue offset, physical offset, size, tags code, 1) of the units from `offset` on.

        The steps end with the file, before queue offset `high`, and where RocketMQ's getMessage ends its scan.
        """
        units = self.units(offset, self.steps_end(offset, high, max_count)).tolist()
        return ((at, *unit, 1) for at, unit in enumerate(units, offset))

    def steps_end(self, offset: int, high: int, max_count: int) -> int:
        """Return the queue offset before which `steps` ends."""
        most = max(_SCAN_LIMIT_BYTES, max_count * UNIT_SIZE) // UNIT_SIZE
        return min(high, self.next_file(offset), offset + most)

    def misplaced(self, start: int, stop: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the units `[start, stop)` that are out of order, also with their neighbours outside."""
        first = max(start - 1, self.first_unit)
        found = out_of_order(self.units(first, stop + 1))[start - first : stop - first]
        return np.pad(found, (0, stop - start - len(found)))

    def next_known(self, offset: int, high: int) -> int:
        """Return where to continue, up to `high`, if the file has no unit from `offset` on."""
        return min(self.next_file(offset), high)

    def offset_near(self, phy_offset: int) -> int | None:
        """Return the queue offset whose unit points at `phy_offset`, None if there is none near its position."""
        start = self.first_at_or_after(phy_offset, self.scan_end())
        begin = max(start - _NEAR_UNITS, self.first_unit)
        hits = np.flatnonzero(self.units(begin, start + _NEAR_UNITS)["phy_offset"] == phy_offset)
        return begin + int(hits[0]) if len(hits) else None

    def first_at_or_after(self, phy_offset: int, stop: int) -> int:
        """Return the first queue offset before `stop` whose unit points at or after `phy_offset`, else `stop`."""
        start = self.first_unit
        while start < stop:
            middle = (start + stop) // 2
            unit = self.units(middle, middle + 1)
            if len(unit) and int(unit["phy_offset"][0]) < phy_offset:
                start = middle + 1
            else:
                stop = middle
        return start

    def next_file(self, offset: int) -> int:
        """Return the first queue offset of the file after the one of `offset`."""
        return (offset // self.units_per_file + 1) * self.units_per_file

    def put(self, queue_offset: int, units: Units) -> None:
        """Write units from `queue_offset` on.

        If the queue has no files and begins later than 0, the space before it is filled with pre-blanks.
        """
        data = np.ascontiguousarray(units).view(np.uint8).data
        self.put_bytes(queue_offset, data)

    def last_phy_offsets(self) -> list[int]:
        """Return the physical offset in the last unit of each file, oldest first."""
        places = [mapped.read(mapped.file_size - UNIT_SIZE, UNIT_SIZE) for mapped in self._queue.files]
        return [int.from_bytes(one[:8], "big", signed=True) for one in places]
