"""One queue of a BatchCQ topic: units of 46 bytes, one per record, in the order of the log.

A unit's position says nothing about its queue offset, so units are found by `msg_base_offset`, which rises from unit to
unit. The first invalid unit ends the queue.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import LOST_TAGS_CODE
from rocketflow_store.model.topic_names import is_directory_name
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE
from rocketflow_store.views.queues.placeholder import placeholder
from rocketflow_store.views.queues.unit_files import UnitFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.views.queues.placeholder import LogExtent

    Units = npt.NDArray[np.void]
    Holds = Callable[[int, int, tuple[str, int, int]], bool]
    """Returns True if the record of a size at a physical offset is (topic, queue id, queue offset)."""

_SCAN_LIMIT_BYTES: Final = 16_000
_CHECKED_UNITS: Final = 4096
_MOST_OF_A_UNIT: Final = (1 << 15) - 1


def written_batches(units: Units) -> npt.NDArray[np.bool_]:
    """Return a mask of the units that are not empty."""
    mask: npt.NDArray[np.bool_] = (
        (units["msg_size"] > 0)
        & (units["phy_offset"] >= 0)
        & (units["msg_base_offset"] >= 0)
        & (units["batch_size"] > 0)
    )
    return mask


def detected_file_size(directory: Path, multiple_of: int = 1) -> int:
    """Return the size of the files of a directory, 0 if there are none: files keep the size they were created with."""
    try:
        with os.scandir(directory) as entries:
            sizes = [entry.stat().st_size for entry in entries if entry.name.isdigit() and entry.is_file()]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise os_files.access_error(directory, error) from error
    return max((size for size in sizes if size % multiple_of == 0), key=sizes.count, default=0)


def _directories(directory: str | Path) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.path for entry in entries if entry.is_dir()]


class BatchConsumeQueue(UnitFiles):
    """The units of (`topic`, `queue_id`), numbered by their position."""

    UNIT_DTYPE = BATCH_UNIT_DTYPE
    UNIT_SIZE = BATCH_UNIT_SIZE
    written = staticmethod(written_batches)

    def __init__(self, directory: Path, topic: str, queue_id: int, file_size: int, *, write: bool) -> None:
        own = (
            0 if write else detected_file_size(directory, BATCH_UNIT_SIZE)
        )  # a writer gets the detected size as `file_size`
        super().__init__(directory, own or file_size, write=write)
        self.topic, self.queue_id = topic, queue_id
        self._directory, self._write = directory, write
        self._end = -1

    @property
    def end_unit(self) -> int:
        """Number after the last valid unit. A reader looks it up again each time, past missing units."""
        return self._end_now(nowait=False)

    def _end_now(self, *, nowait: bool) -> int:
        if self._end < 0 or not self._write:
            self._queue.refresh()
            last = self.units(self._end - 1, self._end, nowait=nowait) if self._end > 0 else self.units(0, 0)
            is_there = len(last) > 0 and written_batches(last)[0]  # else the files were replaced
            if self._write:
                self._end = self.probe_end(self._end) if is_there else self.scan_end()
            else:
                self._end = self.end_past_gaps(self._end) if is_there else self._end_after_gaps(self.scan_end())
        return self._end

    def _end_after_gaps(self, found: int) -> int:
        """Return `found`, or the end of the units after a gap, if these continue the order of the ones before it."""
        reached = self.written_end()
        if reached <= found:
            return found
        before = self.units(max(found - 1, self.first_unit), found)
        units = self.units_or_zeros(found, reached)
        there = np.flatnonzero(written_batches(units))
        if len(there) == 0:
            return found
        known = np.concatenate([before, units[there]])
        rising = [np.diff(known[field].astype(np.int64)) > 0 for field in ("phy_offset", "msg_base_offset")]
        return found + int(there[-1]) + 1 if bool(np.logical_and(*rising).all()) else found

    def bounds(
        self,
        min_phy_offset: int,
        confirm_offset: int | None = None,
        holds: Holds | None = None,
        *,
        nowait: bool = False,
    ) -> tuple[int, int]:
        """Return (min, max) queue offsets of records from `min_phy_offset` on and before `confirm_offset`.

        With `holds`, last units that neither their record nor the unit before them confirms are ignored.
        WouldBlockError with `nowait` if a unit is not in the page cache.
        """
        end = self._end_below(confirm_offset, nowait=nowait)
        if holds is not None:
            end = self._confirmed_end(end, holds)
        if end <= self.first_unit:
            return 0, 0
        last = self.units(end - 1, end, nowait=nowait)[0]
        high = int(last["msg_base_offset"]) + int(last["batch_size"])
        while True:
            first = self.first_unit
            low = self._around("phy_offset", min_phy_offset, end, nowait=nowait)[1]
            units = self.units(low, min(low + 1, end), nowait=nowait)
            if len(units) or self.first_unit == first:  # else its file was deleted meanwhile
                return (self._begin_of(low, units, nowait=nowait) if len(units) else high), high

    def _begin_of(self, number: int, units: Units, *, nowait: bool) -> int:
        """Return the queue offset of the first message that no unit before `number` shows as removed."""
        base = int(units["msg_base_offset"][0])
        if number == self.first_unit or written_batches(self.units(number - 1, number, nowait=nowait))[0]:
            return base
        before = self.units_or_zeros(
            self.first_unit, number, nowait=nowait
        )  # the unit before is missing: so are its messages
        there = np.flatnonzero(written_batches(before))
        if len(there):
            last = before[there[-1]]
            return int(last["msg_base_offset"]) + int(last["batch_size"])
        return 0 if self.first_unit == 0 else base

    def _end_below(self, confirm_offset: int | None, *, nowait: bool) -> int:
        end = self._end_now(nowait=nowait)
        if confirm_offset is None or end <= self.first_unit:
            return end
        if int(self.units(end - 1, end, nowait=nowait)["phy_offset"][0]) < confirm_offset:
            return end
        return self._around("phy_offset", confirm_offset, end, nowait=nowait)[1]

    def _confirmed_end(self, end: int, holds: Holds) -> int:
        """Return the number after the last unit before `end` that its record or its neighbour confirms."""
        first = self.first_unit
        while end > first:
            units = self.units(max(end - 2, first), end)
            if len(units) == 0:  # retention deleted its file meanwhile
                return end
            last, before = units[-1], units[-2] if len(units) > 1 else None
            base = int(last["msg_base_offset"])
            expected = 0 if before is None else int(before["msg_base_offset"]) + int(before["batch_size"])
            if written_batches(units[-1:])[0] and (
                base == expected
                or holds(int(last["phy_offset"]), int(last["msg_size"]), (self.topic, self.queue_id, base))
            ):
                return end
            end -= 1
        return end

    def _first_from(self, field: str, value: int, end: int) -> int:
        """Return the first unit before `end` whose `field` is at least `value`."""
        return self._around(field, value, end)[1]

    def _around(self, field: str, value: int, end: int, *, nowait: bool = False) -> tuple[int, int]:
        """Return the number after the last unit before `end` whose `field` is less than `value`, and the first other.

        The field rises from unit to unit. Units between the two are missing.
        """
        start, found = self.first_unit, end
        while start < end:
            middle = (start + end) // 2
            at, units = self.next_written(middle, end, nowait=nowait)
            if at == end:
                is_wanted = middle >= self.first_unit  # else its file was deleted
            else:
                is_wanted = int(units[field][0]) >= value
                found = at if is_wanted else found
            if is_wanted:
                end = middle
            else:
                start = (at if at < end else middle) + 1
        return start, found

    def steps(
        self, offset: int, high: int, max_count: int, *, nowait: bool = False
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Yield (base offset, physical offset, size, tags code, messages) from the record that holds `offset` on.

        The steps end with the file, before queue offset `high`, and where RocketMQ's getMessage ends its scan.
        WouldBlockError with `nowait` if a unit is not in the page cache.
        """
        end = self._end_now(nowait=nowait)
        number = max(self._around("msg_base_offset", offset + 1, end, nowait=nowait)[0] - 1, self.first_unit)
        for unit in self.units(number, number + 1, nowait=nowait):
            if int(unit["msg_base_offset"]) + int(unit["batch_size"]) <= offset:
                number += 1  # the record that held `offset` is lost
        per_file = self._queue.file_size // BATCH_UNIT_SIZE
        file_end = (number // per_file + 1) * per_file
        most = max(_SCAN_LIMIT_BYTES, max_count * BATCH_UNIT_SIZE) // BATCH_UNIT_SIZE
        units = self.units(number, min(end, file_end, number + most + 1), nowait=nowait)
        for unit in units[written_batches(units)]:
            base, size, batch_size = int(unit["msg_base_offset"]), int(unit["msg_size"]), int(unit["batch_size"])
            if base >= high:
                return
            yield base, int(unit["phy_offset"]), size, int(unit["tags_code"]), batch_size

    def next_known(self, offset: int, high: int) -> int:
        """Return where to continue, up to `high`, if the file has no unit from `offset` on."""
        number = self._first_from("msg_base_offset", offset + 1, self.end_unit)
        units = self.units(number, min(number + 1, self.end_unit))
        return min(max(int(units["msg_base_offset"][0]), offset + 1), high) if len(units) else high

    def units_holding(self, start: int, end: int) -> Units:
        """Return the units of the records that hold messages of queue offsets `[start, end)`, in order."""
        last = self.end_unit
        first = max(self._around("msg_base_offset", start + 1, last)[0] - 1, self.first_unit)
        units = self.units(first, self._first_from("msg_base_offset", end, last))
        held: Units = units[units["msg_base_offset"].astype(np.int64) + units["batch_size"] > start]
        return held[written_batches(held)]

    def units_from(self, phy_offset: int, count: int) -> Units:
        """Return up to `count` units, from the first whose record is at or after `phy_offset`."""
        first = self._first_from("phy_offset", phy_offset, self.end_unit)
        return self.units(first, min(first + count, self.end_unit))

    def newest_units(self, phy_offset: int) -> Units:
        """Return the units of records at or after `phy_offset`, and those that point where the last one does."""
        end = self.end_unit
        last = self.units(end - 1, end) if end > self.first_unit else self.units(0, 0)
        return self.units_from(min(phy_offset, *last["phy_offset"].tolist()), end) if len(last) else last

    # -- writing

    def put(self, units: Units) -> None:
        """Append units; those of records that already have one are skipped."""
        end = self.end_unit
        if end > self.first_unit:
            units = units[units["phy_offset"] > int(self.units(end - 1, end)["phy_offset"][0])]
        if len(units):
            self.put_bytes(end, memoryview(np.ascontiguousarray(units).view(np.uint8).data))
            self._end = end + len(units)

    def cut(self, phy_offset: int) -> None:
        """Remove the units of records at or after `phy_offset`, and zero their bytes and all after them."""
        end = self._first_from("phy_offset", phy_offset, self.end_unit)
        start, low = end, self.first_unit
        while start > low:  # units that were never synced may hold anything, and mislead the search
            first = max(start - _CHECKED_UNITS, low)
            places = self.units(first, start)["phy_offset"].astype(np.int64)
            after = np.flatnonzero(places >= phy_offset)
            start = first
            if len(after):
                end = first + int(after[0])
            elif len(places) and bool((np.diff(places) >= 0).all()):
                break
        self.truncate(end)
        self._end = end if len(self._queue) else 0  # without a file the queue starts at 0

    def cut_beyond(self, log_end: int) -> None:
        """Remove the units of records at or after `log_end`. The units must be sound; the last one decides."""
        end = self.end_unit
        if end > self.first_unit and int(self.units(end - 1, end)["phy_offset"][0]) >= log_end:
            self.cut(log_end)

    def fill_lost(self, end_offset: int, log: LogExtent) -> bool:
        """Extend the queue to `end_offset`, its earlier end; return True if its last messages are lost.

        Their queue offsets get units that point at a placeholder.
        """
        high = self.bounds(0)[1]
        if high >= end_offset or log.end <= 0:
            return False
        end = self.end_unit
        last = self.units(max(end - 1, self.first_unit), end)[-1:]
        before = (int(last["phy_offset"][0]), int(last["msg_size"][0])) if len(last) else (-1, 0)
        bases = np.arange(high, end_offset, _MOST_OF_A_UNIT)
        units = np.zeros(len(bases), BATCH_UNIT_DTYPE)
        units["phy_offset"], units["msg_size"] = placeholder(self.topic, before, log)
        units["tags_code"] = LOST_TAGS_CODE
        if len(last):
            units["store_timestamp"] = last["store_timestamp"]
        units["msg_base_offset"], units["compacted_offset"] = bases, -1
        units["batch_size"] = np.minimum(end_offset - bases, _MOST_OF_A_UNIT)
        self.put_bytes(end, memoryview(units.view(np.uint8).data))
        self._end = end + len(units)
        return True

    def remove_below(self, min_phy_offset: int, now_ms: int, forcibly_after_ms: int) -> list[Path]:
        """Delete the oldest files whose records are all before `min_phy_offset`; never the newest file."""
        files = self._queue.files
        count = 0
        for mapped in files[:-1]:
            last = self.units(mapped.end_offset // BATCH_UNIT_SIZE - 1, mapped.end_offset // BATCH_UNIT_SIZE)
            if not len(last) or int(last["phy_offset"][0]) >= min_phy_offset:
                break
            count += 1
        return self.remove_first(count, now_ms, forcibly_after_ms) if count else []

    def sync(self, least_bytes: int = 0) -> bool:
        """Make the units durable, and the names of new files."""
        synced = super().sync(least_bytes)
        if self.created:
            for directory in (self._directory, self._directory.parent, self._directory.parent.parent):
                os_files.sync_directory(directory)
            self.created = False
        return synced


class BatchQueueTable:
    """The queues in the directories `batchconsumequeue/TOPIC/ID`."""

    def __init__(self, directory: Path, file_size: int, *, write: bool) -> None:
        self._directory, self._file_size, self._write = directory, file_size, write
        self._known: dict[tuple[str, int], BatchConsumeQueue] = {}
        self._topics: set[str] = set()

    def refresh(self) -> None:
        """Look for new queues."""
        try:
            found = [queue for topic in _directories(self._directory) for queue in _directories(topic)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise os_files.access_error(self._directory, error) from error
        for queue in found:
            topic, name = os.path.split(queue)
            if name.isdigit():
                self.add(os.path.basename(topic), int(name))

    def add(self, topic: str, queue_id: int) -> BatchConsumeQueue:
        """Return the queue; register it if it is new."""
        known = self._known.get((topic, queue_id))
        if known is None:
            assert is_directory_name(topic)
            directory = self._directory / topic / str(queue_id)
            known = BatchConsumeQueue(directory, topic, queue_id, self._file_size, write=self._write)
            self._known[topic, queue_id] = known
            self._topics.add(topic)
        return known

    def find(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """Return the queue, None if it does not exist."""
        return self._known.get((topic, queue_id))

    def all(self) -> list[BatchConsumeQueue]:
        """Return every queue, by topic and id."""
        known = self._known  # replaced when a topic is removed
        return [known[key] for key in sorted(known)]

    def remove_topic(self, topic: str) -> list[int]:
        """Delete a topic's queues and remove them from the table; return their ids."""
        self._topics.discard(topic)
        removed = [key for key in self._known if key[0] == topic]
        destroyed = [self._known[key] for key in removed]
        self._known = {key: queue for key, queue in self._known.items() if key[0] != topic}
        for queue in destroyed:
            queue.destroy()
        return [queue_id for _, queue_id in removed]

    def has_topic(self, topic: str) -> bool:
        """Return True if the topic has a queue."""
        return topic in self._topics

    def end(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last message; 0 if the queue does not exist."""
        queue = self.find(topic, queue_id)
        return queue.bounds(0)[1] if queue is not None else 0

    def remove_below(self, min_phy_offset: int, now_ms: int, forcibly_after_ms: int) -> list[Path]:
        """Delete files that point before the log's begin: see `BatchConsumeQueue.remove_below`."""
        return [path for queue in self.all() for path in queue.remove_below(min_phy_offset, now_ms, forcibly_after_ms)]

    def max_unit_end(self) -> int:
        """Return the greatest physical end of the last units' records of all queues; -1 without units."""
        units = self.last_units()
        ends = units["phy_offset"].astype(np.int64) + units["msg_size"]
        return int(ends.max(initial=-1))

    def last_units(self) -> Units:
        """Return the last unit of every queue that has one."""
        ends = [(queue, queue.end_unit) for queue in self._known.values()]
        parts = [queue.units(end - 1, end) for queue, end in ends if end > queue.first_unit]
        return np.concatenate(parts) if parts else np.zeros(0, BATCH_UNIT_DTYPE)

    def sync(self) -> None:
        for queue in self.all():
            queue.sync()

    def cut(self, phy_offset: int) -> None:
        """Remove the units of records at or after `phy_offset`."""
        for queue in self.all():
            queue.cut(phy_offset)

    def cut_beyond(self, log_end: int) -> None:
        """Remove the units of records that the log does not have."""
        for queue in self.all():
            queue.cut_beyond(log_end)

    def close(self) -> None:
        for queue in self._known.values():
            queue.close()
        self._known.clear()
