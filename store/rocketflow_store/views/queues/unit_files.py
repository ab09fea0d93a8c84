"""Units of one size in the files of a directory: unit n is at byte n times their size."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.model.errors import WouldBlockError
from rocketflow_store.model.shared_numbers import number

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile

    Units = npt.NDArray[np.void]

_PROBE_UNITS: Final = 4096
_WINDOW_BYTES: Final = 64 << 10
_GAP_UNITS: Final = 256
"""Readers look past gaps of this length at every lookup: a damaged page holds up to 205 units."""


class UnitFiles:
    """The common part of all kinds of queues; `UNIT_DTYPE`, `UNIT_SIZE` and `written` differ by kind."""

    __slots__ = ("_queue", "created", "numbers")  # a store has up to ten thousand

    UNIT_DTYPE: ClassVar[np.dtype[np.void]]
    UNIT_SIZE: ClassVar[int]
    FILLER: ClassVar[bytes] = b""
    """A unit for the space before a queue's first real one, if that begins later than 0."""

    changes = number(2)
    """Number of changes of units that this process made; counted after each."""
    _unsynced_from = number(0)
    _unsynced_bytes = number(1)

    def __init__(self, directory: Path, file_size: int, *, write: bool) -> None:
        self._queue = MappedFileQueue(directory, file_size, write=write)
        self.numbers = array("q", (-1, 0, 0))
        self.created = False
        """True if files were created since the directories were last synced."""

    @staticmethod
    def written(units: Units) -> npt.NDArray[np.bool_]:
        """Return a mask of the units that are not empty."""
        raise NotImplementedError

    @property
    def file_size(self) -> int:
        return self._queue.file_size

    @property
    def first_unit(self) -> int:
        """Number of the first unit of the first file; 0 without files."""
        first = self._queue.first
        return first.file_from_offset // self.UNIT_SIZE if first else 0

    @property
    def end_of_files(self) -> int:
        """Number after the last unit that fits into the files; 0 without files."""
        last = self._queue.last
        return last.end_offset // self.UNIT_SIZE if last else 0

    @property
    def units_per_file(self) -> int:
        return self._queue.file_size // self.UNIT_SIZE

    @property
    def paths(self) -> list[Path]:
        """The files, oldest first."""
        return [Path(mapped.name) for mapped in self._queue.files]

    @property
    def file_count(self) -> int:
        return len(self._queue)

    def refresh(self) -> None:
        """Look for files that another process added or removed."""
        self._queue.refresh()

    def is_replaced(self) -> bool:
        """Return True if the newest file is no longer the directory's."""
        last = self._queue.last
        return last is not None and last.is_replaced()

    def units(self, start: int, end: int, *, nowait: bool = False) -> Units:
        """Return the units `[start, end)`, up to the first one without a file.

        WouldBlockError with `nowait` if one is not in the page cache.
        """
        return self._whole_units(self.unit_bytes(start, end, nowait=nowait))

    def _whole_units(self, raw: bytes) -> Units:
        return np.frombuffer(raw, self.UNIT_DTYPE, len(raw) // self.UNIT_SIZE)

    def unit_bytes(self, start: int, end: int, *, nowait: bool = False) -> bytes:
        """Return the units `[start, end)` as the files have them; raises as `units` does.

        Where a file ends early, the bytes may end within a unit.
        """
        parts: list[bytes] = []
        position, stop = start * self.UNIT_SIZE, end * self.UNIT_SIZE
        while position < stop:
            mapped = self._queue.find(position)
            if mapped is None:
                break
            size = min(stop, mapped.end_offset) - position
            if nowait:
                data = self._read_cached(mapped, position - mapped.file_from_offset, size)
            else:
                data = mapped.read(position - mapped.file_from_offset, size)
            parts.append(data)
            if len(data) < size:
                break
            position += size
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @staticmethod
    def _read_cached(mapped: MappedFile, position: int, size: int) -> bytes:
        """Read bytes that are in the page cache; WouldBlockError if one is not, or if the file ends before."""
        buffer = bytearray(size)
        if mapped.read_into(position, buffer, nowait=True) < size:
            raise WouldBlockError(mapped.path)
        return bytes(buffer)

    def units_or_zeros(self, start: int, end: int, *, nowait: bool = False) -> Units:
        """Return the units `[start, end)`; zeros where the file is missing or truncated.

        WouldBlockError with `nowait` if one is not in the page cache.
        """
        found = np.zeros(max(end - start, 0), self.UNIT_DTYPE)
        at = start
        while at < end:
            part = self.units(at, end, nowait=nowait)
            found[at - start : at - start + len(part)] = part
            at += len(part)
            at += self.units_per_file - at % self.units_per_file  # to the file after the one that lacks them
        return found

    def scan_end(self) -> int:
        """Return the number after the last unit of an unbroken run in the last three files.

        A missing file between them does not end the run: the units after it were written.
        """
        files, end = self._queue.files[-3:], 0
        for at, mapped in enumerate(files):
            if at and files[at - 1].end_offset == mapped.file_from_offset:
                continue  # the run continues into this file, or ended before it
            start = mapped.file_from_offset // self.UNIT_SIZE
            found = self.probe_end(start)
            if at == 0 or found > start:
                end = found
        return end

    def written_end(self) -> int:
        """Return the number after the last unit with a byte that is not zero."""
        for mapped in reversed(self._queue.files):
            found = mapped.written_end(keep_cached=True)
            if found:
                return -(-(mapped.file_from_offset + min(found, mapped.file_size)) // self.UNIT_SIZE)
        return 0

    def probe_end(self, start: int) -> int:
        """Return the number of the first invalid unit at or after `start`."""
        block = _PROBE_UNITS
        while True:
            found = self._whole_units(self.unit_bytes(start, start + block))
            bad = np.flatnonzero(~self.written(found))
            if len(bad):
                return start + int(bad[0])
            start += len(found)
            if len(found) < block:
                return start
            block = min(block * 4, self.units_per_file)

    def end_past_gaps(self, start: int) -> int:
        """Return the number after the last unit from `start` on; gaps of up to 256 units do not end the run."""
        while True:
            end = self.probe_end(start)
            ahead = np.flatnonzero(self.written(self.units(end, end + _GAP_UNITS)))
            if len(ahead) == 0:
                return end
            start = end + int(ahead[0])

    def next_written(self, start: int, stop: int, *, nowait: bool = False) -> tuple[int, Units]:
        """Return the number of the first unit of `[start, stop)` that is not empty, and its block from there on.

        Without such a unit, returns `stop` and no units. WouldBlockError with `nowait` if a unit on the way is not in
        the page cache.
        """
        block = 1
        while start < stop:
            found = self.units_or_zeros(start, min(start + block, stop), nowait=nowait)
            there = np.flatnonzero(self.written(found))
            if len(there):
                return start + int(there[0]), found[there[0] :]
            start += len(found)
            block = min(block * 16, _PROBE_UNITS)
        return stop, np.zeros(0, self.UNIT_DTYPE)

    def open_window(self, number: int) -> Any:
        """Return a window for the kernel on the units from `number` on, None if there is none."""
        return self._queue.open_window(number * self.UNIT_SIZE, _WINDOW_BYTES)

    def close_window(self) -> None:
        """Take the window from the kernel."""
        self._queue.close_window()

    def put_bytes(self, number: int, data: bytes | bytearray | memoryview[Any]) -> None:
        """Write encoded units from unit `number` on."""
        position, at = number * self.UNIT_SIZE, 0
        first, length = position, len(data)
        mapped = self._queue.find(position)
        if mapped is not None and position + length <= mapped.file_from_offset + mapped.file_size:
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
        # after the write: a sync that begins meanwhile includes these units, or leaves them to the next
        numbers = self.numbers
        if numbers[0] < 0 or first < numbers[0]:
            numbers[0] = first
        numbers[1] += length
        numbers[2] += 1

    def _add_file(self, position: int) -> Any:
        first = len(self._queue) == 0
        mapped = self._queue.create(position - position % self._queue.file_size)
        self.created = True  # after it exists: a sync of the names that runs meanwhile leaves it to the next
        if first and position > mapped.file_from_offset:
            blanks = (position - mapped.file_from_offset) // self.UNIT_SIZE
            mapped.write(0, self.FILLER * blanks)
        return mapped

    def truncate(self, end: int) -> None:
        """Remove every unit from number `end` on, and zero its bytes."""
        position = end * self.UNIT_SIZE
        last = self._queue.find(position)
        start = position if last is None or last.file_from_offset == position else last.file_from_offset + 1
        self._queue.drop_from(start)
        if last is not None and last.file_from_offset != position:
            last.zero_from(position - last.file_from_offset)
        self.changes += 1

    def destroy(self) -> None:
        """Delete every file."""
        self._queue.drop_from(0)
        self.changes += 1

    def remove_first(self, count: int, now_ms: int, forcibly_after_ms: int) -> list[Path]:
        """Delete the `count` oldest files: see `MappedFileQueue.remove_first`."""
        return [mapped.path for mapped in self._queue.remove_first(count, now_ms, forcibly_after_ms)]

    def is_unsynced(self, least_bytes: int = 0) -> bool:
        """Return True if at least `least_bytes` (and any) were written since the last sync."""
        return self._unsynced_from >= 0 and self._unsynced_bytes >= least_bytes

    def sync(self, least_bytes: int = 0) -> bool:
        """Make written units durable if they are at least `least_bytes`; return True if so. One thread at a time."""
        start = self._unsynced_from
        if not self.is_unsynced(least_bytes):
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
        self._queue.close()
