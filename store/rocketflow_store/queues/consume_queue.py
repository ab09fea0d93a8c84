"""One queue of one topic: units of 20 bytes at `queue_offset * 20`, in files of a fixed size.

Units follow each other without a gap; the first invalid one (size 0) ends the queue. What a crash or a cut left behind
the end is not part of it: the owner of the queue decides the end, from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import (
    LOST_TAGS_CODE,
    PRE_BLANK_SIZE,
    PRE_BLANK_UNIT,
    UNIT_DTYPE,
    UNIT_SIZE,
)
from rocketflow_store.mapped_files.mapped_file_queue import MappedFileQueue

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    import numpy.typing as npt

    Units = npt.NDArray[np.void]

_PROBE_UNITS: Final = 4096
_SCAN_LIMIT_BYTES: Final = 16_000
_NO_UNITS: Final = np.zeros(0, UNIT_DTYPE)


def written(units: Units) -> npt.NDArray[np.bool_]:
    """Which units hold something (a real unit or a pre-blank one)."""
    mask: npt.NDArray[np.bool_] = (units["msg_size"] > 0) & (units["phy_offset"] >= 0)
    return mask


def pre_blank(units: Units) -> npt.NDArray[np.bool_]:
    """Which units only fill the room before a queue's first real one."""
    mask: npt.NDArray[np.bool_] = units["msg_size"] == PRE_BLANK_SIZE
    return mask


def lost(units: Units) -> npt.NDArray[np.bool_]:
    """Which units stand for a message that is known to be lost."""
    mask: npt.NDArray[np.bool_] = units["tags_code"] == LOST_TAGS_CODE
    return mask


class ConsumeQueue:
    """The units of (`topic`, `queue_id`)."""

    def __init__(self, directory: Path, topic: str, queue_id: int, file_size: int, *, write: bool) -> None:
        self.topic, self.queue_id = topic, queue_id
        self._queue = MappedFileQueue(directory, file_size, write=write)
        self._unsynced_from, self._unsynced_bytes = -1, 0
        self.created = False
        """Whether files were made since the directories were last synced."""

    @property
    def file_size(self) -> int:
        return self._queue.file_size

    @property
    def first_unit(self) -> int:
        """Queue offset of the first slot of the first file; 0 without files."""
        first = self._queue.first
        return first.file_from_offset // UNIT_SIZE if first else 0

    @property
    def units_per_file(self) -> int:
        return self._queue.file_size // UNIT_SIZE

    @property
    def paths(self) -> list[Path]:
        """The files, oldest first."""
        return [mapped.path for mapped in self._queue.files]

    @property
    def file_count(self) -> int:
        return len(self._queue)

    def refresh(self) -> None:
        """Look for files that another process added or removed."""
        self._queue.refresh()

    def is_replaced(self) -> bool:
        """Whether the newest file is not the directory's any more."""
        last = self._queue.last
        return last is not None and last.is_replaced()

    def units(self, start: int, end: int) -> Units:
        """Units of queue offsets [start, end), as far as there are files for them from `start` on."""
        parts: list[bytes] = []
        position, stop = start * UNIT_SIZE, end * UNIT_SIZE
        while position < stop:
            mapped = self._queue.find(position)
            if mapped is None:
                break
            size = min(stop, mapped.end_offset) - position
            data = mapped.read(position - mapped.file_from_offset, size)
            parts.append(data)
            if len(data) < size:
                break
            position += size
        if not parts:
            return _NO_UNITS
        raw = parts[0] if len(parts) == 1 else b"".join(parts)
        return np.frombuffer(raw, UNIT_DTYPE, len(raw) // UNIT_SIZE)

    def steps(self, offset: int, high: int, max_count: int) -> Iterator[tuple[int, int, int, int, int]]:
        """(queue offset, physical offset, size, tags code, 1) of the units from `offset` on.

        They end with a file, below queue offset `high`, and where RocketMQ's getMessage ends its scan.
        """
        file_end = (offset // self.units_per_file + 1) * self.units_per_file
        most = max(_SCAN_LIMIT_BYTES, max_count * UNIT_SIZE) // UNIT_SIZE
        units = self.units(offset, min(high, file_end, offset + most)).tolist()
        return ((at, *unit, 1) for at, unit in enumerate(units, offset))

    def scan_end(self) -> int:
        """Queue offset behind the last unit of an unbroken run, looking at the last three files."""
        files = self._queue.files[-3:]
        if not files:
            return 0
        return self.probe_end(files[0].file_from_offset // UNIT_SIZE)

    def probe_end(self, start: int) -> int:
        """Queue offset of the first invalid unit at or behind `start`."""
        block = _PROBE_UNITS
        while True:
            found = self.units(start, start + block)
            bad = np.flatnonzero(~written(found))
            if len(bad):
                return start + int(bad[0])
            start += len(found)
            if len(found) < block:
                return start
            block = min(block * 4, self.units_per_file)

    def put(self, queue_offset: int, units: Units) -> None:
        """Write units at their place; a queue without files that begins later than 0 is filled with pre-blanks."""
        data = np.ascontiguousarray(units).view(np.uint8).data
        self.put_bytes(queue_offset, data)

    def put_bytes(self, queue_offset: int, data: bytes | memoryview[Any]) -> None:
        """As `put`, for encoded units."""
        position, at = queue_offset * UNIT_SIZE, 0
        first, length = position, len(data)
        mapped = self._queue.find(position)
        if mapped is not None and position + length <= mapped.end_offset:
            mapped.write(position - mapped.file_from_offset, data)
            at = length
        while at < length:
            mapped = self._queue.find(position)
            if mapped is None:
                mapped = self._add_file(position)
            size = min(len(data) - at, mapped.end_offset - position)
            mapped.write(position - mapped.file_from_offset, data[at : at + size])
            position += size
            at += size
        # behind the write: a sync that begins meanwhile has these units, or leaves them to the next
        if self._unsynced_from < 0 or first < self._unsynced_from:
            self._unsynced_from = first
        self._unsynced_bytes += len(data)

    def _add_file(self, position: int) -> Any:
        first = len(self._queue) == 0
        self.created = True
        mapped = self._queue.create(position - position % self._queue.file_size)
        if first and position > mapped.file_from_offset:
            blanks = (position - mapped.file_from_offset) // UNIT_SIZE
            mapped.write(0, PRE_BLANK_UNIT * blanks)
        return mapped

    def truncate(self, end: int) -> None:
        """Forget every unit at or behind queue offset `end`, and zero its room."""
        position = end * UNIT_SIZE
        last = self._queue.find(position)
        start = position if last is None or last.file_from_offset == position else last.file_from_offset + 1
        self._queue.drop_from(start)
        if last is not None and last.file_from_offset != position:
            last.zero_from(position - last.file_from_offset)

    def last_phy_offsets(self) -> list[int]:
        """Where the last unit of each file points, oldest first."""
        places = [mapped.read(mapped.file_size - UNIT_SIZE, UNIT_SIZE) for mapped in self._queue.files]
        return [int.from_bytes(one[:8], "big", signed=True) for one in places]

    def remove_first(self, count: int, now_ms: int, forcibly_after_ms: int) -> list[Path]:
        """Delete the `count` oldest files: see `MappedFileQueue.remove_first`."""
        return [mapped.path for mapped in self._queue.remove_first(count, now_ms, forcibly_after_ms)]

    def sync(self, least_bytes: int = 0) -> bool:
        """Make what was put durable, where it is at least `least_bytes`; whether it was. One thread at a time."""
        start = self._unsynced_from
        if start < 0 or self._unsynced_bytes < least_bytes:
            return False
        self._unsynced_from, self._unsynced_bytes = -1, 0
        try:
            for mapped in self._queue.files:
                if mapped.end_offset > start:
                    mapped.sync()
        except BaseException:
            self._unsynced_from = start if self._unsynced_from < 0 else min(start, self._unsynced_from)
            raise
        return True

    def close(self) -> None:
        """Close the files."""
        self._queue.close()
