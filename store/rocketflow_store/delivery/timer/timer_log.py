"""`timerlog/`: a record of 52 bytes for every timer message, in the order of the timer topic's queue.

Records of one tick are a chain: each stores the position of the one before it, the slot of the wheel that of the
newest. A file ends with a blank record once 52 + 16 bytes no longer fit.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import MappedFile, file_name
from rocketflow_store.format.record import BLANK_MAGIC
from rocketflow_store.format.timer_layout import MAGIC, TIMER_BLANK, TIMER_UNIT_SIZE
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.records.arrow.unit_types import TIMER_UNIT_DTYPE

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Units = npt.NDArray[np.void]

_KNOWN_BITS: Final = 0xF
_CHAIN_SCAN: Final = 8
"""A range of the log is read at once for a chain that makes up at least one in this many of its records."""
SHORT_CHAIN: Final = 4096
_CRC_BLOCK: Final = 8 << 20


def units_in_file(file_size: int) -> int:
    """Return how many records a file of `file_size` bytes holds."""
    return max((file_size - TIMER_BLANK.size) // TIMER_UNIT_SIZE, 0)


def decode_units(data: bytes | memoryview, file: object = "timerlog", base: int = 0) -> Units:
    """Return the records of a file's bytes up to its blank record or its written end.

    Raises: CorruptRecordError: at the first place that holds neither a valid record, nor a blank one, nor zeros.
    """
    count = min(units_in_file(len(data)), len(data) // TIMER_UNIT_SIZE)
    units = np.frombuffer(data, TIMER_UNIT_DTYPE, count)
    bad = np.flatnonzero(~sound_units(units))
    if len(bad) == 0:
        return units
    first = int(bad[0])
    at = first * TIMER_UNIT_SIZE
    _, _, magic = TIMER_BLANK.unpack_from(data, at)
    if magic & 0xFFFFFFFF != BLANK_MAGIC & 0xFFFFFFFF and any(data[at : at + TIMER_UNIT_SIZE]):
        raise CorruptRecordError(file, base + at, "is no record of a timer log")
    return units[:first]


def sound_units(units: Units) -> npt.NDArray[np.bool_]:
    """Return the mask of the units whose fields are in range."""
    fine: npt.NDArray[np.bool_] = (
        (units["size"] == TIMER_UNIT_SIZE)
        & (units["magic"] & ~_KNOWN_BITS == 0)
        & (units["magic"] & MAGIC != 0)
        & (units["phy_offset"] >= 0)
        & (units["msg_size"] > 0)
        & (units["previous"] >= -1)
    )
    return fine


class TimerLog:
    """The files of one timer log, appended at its end. Damage raises CorruptRecordError: the log is then rebuilt."""

    def __init__(self, directory: Path, file_size: int, staging: Path) -> None:
        """Open the files in `directory` at their sizes; create new files of `file_size` in `staging`."""
        self.directory, self._staging = directory, staging
        self._files: list[MappedFile] = []
        self.file_size = file_size
        names = sorted(one.name for one in directory.iterdir()) if directory.is_dir() else []
        for name in names:
            if not name.isdigit() or len(name) < 20:
                raise CorruptRecordError(directory / name, 0, "is no file of a timer log")
            self._files.append(MappedFile(directory / name, int(name), write=True))
        self._check_files()
        self.end = self._find_end()
        """End offset of the last record."""

    def _check_files(self) -> None:
        if not self._files:
            return
        self.file_size = size = self._files[0].file_size
        for number, mapped in enumerate(self._files):
            wanted = self._files[0].file_from_offset + number * size
            if mapped.file_size != size or units_in_file(size) == 0 or mapped.file_from_offset != wanted:
                raise CorruptRecordError(mapped.path, 0, "does not fit the other files of the timer log")

    def _find_end(self) -> int:
        if not self._files:
            return 0
        last = self._files[-1]
        units = decode_units(memoryview(last.populate(0, last.file_size)), last.path, last.file_from_offset)
        return last.file_from_offset + len(units) * TIMER_UNIT_SIZE

    def close(self) -> None:
        """Close all files."""
        for mapped in self._files:
            mapped.close()

    @property
    def begin(self) -> int:
        """Offset of the oldest file."""
        return self._files[0].file_from_offset if self._files else 0

    def places(self, count: int) -> Ints:
        """Return the positions of the next `count` records."""
        per_file = units_in_file(self.file_size)
        number, used = divmod(self.end - self.begin, self.file_size)
        ordinals = number * per_file + used // TIMER_UNIT_SIZE + np.arange(count, dtype=np.int64)
        files, rows = np.divmod(ordinals, per_file)
        found: Ints = self.begin + files * self.file_size + rows * TIMER_UNIT_SIZE
        return found

    def append(self, units: Units) -> None:
        """Write `units` at the positions that `places` returns for them."""
        if len(units) == 0:
            return
        positions = self.places(len(units))
        bases = self.begin + (positions - self.begin) // self.file_size * self.file_size
        cuts = np.flatnonzero(np.diff(bases)) + 1
        octets = np.ascontiguousarray(units).view(np.uint8).data
        done = 0
        for start, part in zip(np.append(0, cuts).tolist(), np.split(positions, cuts), strict=True):
            mapped = self._file_of(int(bases[start]))
            size = len(part) * TIMER_UNIT_SIZE
            at = int(part[0]) - mapped.file_from_offset
            mapped.write(at, octets[done : done + size])
            done += size
            self.end = mapped.file_from_offset + at + size
            if self.end - mapped.file_from_offset == units_in_file(self.file_size) * TIMER_UNIT_SIZE:
                rest = mapped.end_offset - self.end
                mapped.write(mapped.file_size - rest, TIMER_BLANK.pack(rest, 0, BLANK_MAGIC))

    def _file_of(self, base: int) -> MappedFile:
        for mapped in reversed(self._files):
            if mapped.file_from_offset == base:
                return mapped
        if not self.directory.is_dir():
            os_files.make_directory(self.directory)
        staged, path = self._staging / f"timerlog-{file_name(base)}", self.directory / file_name(base)
        if not self._staging.is_dir():
            os_files.make_directory(self._staging)
        os_files.remove_file(staged)
        fd = os_files.open_file(staged, write=True, create=True)
        try:
            os_files.preallocate(fd, staged, self.file_size)
            os_files.sync_file(fd, staged)
        finally:
            os_files.close_file(fd)
        os_files.rename(staged, path)
        os_files.sync_directory(self.directory)
        mapped = MappedFile(path, base, write=True)
        self._files.append(mapped)
        return mapped

    def sync(self) -> None:
        """Make the appended records durable."""
        for mapped in self._files[-2:]:
            mapped.sync()

    def read(self, start: int, stop: int) -> tuple[Ints, Units]:
        """Return (positions, records) of `[start, stop)`; both ends are record positions of the log."""
        positions: list[Ints] = []
        found: list[Units] = []
        for mapped in self._files:
            last = mapped.file_from_offset + units_in_file(self.file_size) * TIMER_UNIT_SIZE
            low, high = max(start, mapped.file_from_offset), min(stop, last, self.end)
            if low < high:
                at = low - mapped.file_from_offset
                data = mapped.bytes_of(at, at + high - low)
                units = np.frombuffer(data, TIMER_UNIT_DTYPE, (high - low) // TIMER_UNIT_SIZE)
                bad = np.flatnonzero(~sound_units(units))
                if len(bad):
                    place = low + int(bad[0]) * TIMER_UNIT_SIZE
                    raise CorruptRecordError(mapped.path, place, "is no record of a timer log")
                found.append(units)
                positions.append(low + TIMER_UNIT_SIZE * np.arange(len(units), dtype=np.int64))
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, TIMER_UNIT_DTYPE)
        return np.concatenate(positions), np.concatenate(found)

    def chain(self, first: int, last: int, precision_ms: int, tick_ms: int, count: int = 0) -> Units:
        """Return the records of a tick, oldest first, from the slot's `first` and `last` positions.

        `count` is their approximate number: it decides between reading the range at once and following the links.

        Raises: CorruptRecordError: if the chain is broken.
        """
        self._check_place(first)
        self._check_place(last)
        if first > last:
            raise CorruptRecordError(
                self.directory, last, f"the newest record of tick {tick_ms} is before its first record at {first}"
            )
        if (last - first) // TIMER_UNIT_SIZE <= max(SHORT_CHAIN, _CHAIN_SCAN * count):
            return self._chain_in(first, last, precision_ms, tick_ms)
        walked: list[Units] = []
        at = last
        while at >= 0:
            _, unit = self.read(at, at + TIMER_UNIT_SIZE)
            walked.append(unit)
            previous = int(unit["previous"][0])
            if previous >= at:
                raise CorruptRecordError(self.directory, at, f"the record links to {previous}, which is not before it")
            at = previous
            if at < 0:
                break
            self._check_place(at)
            if len(walked) >= SHORT_CHAIN:  # a long chain: read the rest of its range at once
                return np.concatenate([self._chain_in(first, at, precision_ms, tick_ms), *walked[::-1]])
        return np.concatenate(walked[::-1])

    def _chain_in(self, first: int, last: int, precision_ms: int, tick_ms: int) -> Units:
        positions, units = self.read(first, last + TIMER_UNIT_SIZE)
        due = units["write_ms"].astype(np.int64) + units["delay_ms"]
        rows = np.flatnonzero(due // precision_ms * precision_ms == tick_ms)
        links, places = units["previous"][rows], positions[rows]
        if len(rows) == 0 or int(places[0]) != first or int(places[-1]) != last:
            raise CorruptRecordError(
                self.directory, first, f"the records of tick {tick_ms} are not at the positions that its slot stores"
            )
        if not bool((links[1:] == places[:-1]).all()):
            raise CorruptRecordError(self.directory, first, f"the chain of tick {tick_ms} is broken")
        return units[rows]

    def _check_place(self, position: int) -> None:
        inside = (position - self.begin) % self.file_size if self.file_size else 1
        if not self.begin <= position < self.end or inside % TIMER_UNIT_SIZE:
            raise CorruptRecordError(
                self.directory, position, f"is no position of a record in [{self.begin}, {self.end})"
            )

    def crc(self, start: int) -> int:
        """Return the CRC-32 of the bytes from `start` to the end."""
        found = 0
        for mapped in self._files:
            low, high = max(start, mapped.file_from_offset), min(self.end, mapped.end_offset)
            for at in range(low, high, _CRC_BLOCK):
                position, stop = at - mapped.file_from_offset, min(at + _CRC_BLOCK, high) - mapped.file_from_offset
                found = crc32(mapped.bytes_of(position, stop), found)
        return found

    def expire(self, min_phy_offset: int) -> list[Path]:
        """Delete the oldest files, never the newest, whose messages all start before `min_phy_offset`; return paths."""
        deleted = []
        while len(self._files) > 1:
            oldest = self._files[0]
            at = (units_in_file(self.file_size) - 1) * TIMER_UNIT_SIZE
            unit = np.frombuffer(oldest.bytes_of(at, at + TIMER_UNIT_SIZE), TIMER_UNIT_DTYPE)
            if not sound_units(unit)[0] or int(unit["phy_offset"][0]) >= min_phy_offset:
                break
            oldest.destroy()
            deleted.append(oldest.path)
            self._files = self._files[1:]
        return deleted
