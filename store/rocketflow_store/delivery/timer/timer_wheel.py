"""`timerwheel`: for each tick of two weeks, the positions in the timer log of the messages due in it.

1,209,600 slots of 32 bytes (604,800 ticks, twice); a tick's slot is `(ms // precision) % slots`. A slot belongs to the
tick that it stores and is empty for any other. The complete wheel is in memory; changed slots are written back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.format.timer_layout import SLOT_SIZE, WHEEL_SIZE, WHEEL_SLOTS
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.records.arrow.unit_types import SLOT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_NEAR: Final = 128
"""Changed slots at most this far apart are written together, with the slots between them."""
_FEW_TICKS: Final = 4096


class TimerWheel:
    """The slots of one wheel with ticks of `precision_ms`."""

    def __init__(self, precision_ms: int, slots: npt.NDArray[np.void] | None = None) -> None:
        self.precision_ms = precision_ms
        self.slots = np.zeros(WHEEL_SLOTS, SLOT_DTYPE) if slots is None else slots
        self._changed: list[Ints] = []

    @classmethod
    def decode(cls, data: bytes | memoryview, precision_ms: int, file: object = "timerwheel") -> TimerWheel:
        """Return the wheel stored in `data`; raise CorruptRecordError if its length is not WHEEL_SIZE."""
        if len(data) != WHEEL_SIZE:
            raise CorruptRecordError(file, 0, f"is {len(data)} bytes, expected {WHEEL_SIZE}")
        return cls(precision_ms, np.frombuffer(data, SLOT_DTYPE).copy())

    @classmethod
    def load(cls, path: Path, precision_ms: int) -> TimerWheel:
        """Return the wheel at `path`, or an empty one if the file does not exist."""
        try:
            data = os_files.read_file(path)
        except FileNotFoundError:
            return cls(precision_ms)
        except OSError as error:
            raise os_files.access_error(path, error) from error
        return cls.decode(data, precision_ms, path)

    def find(self, from_ms: int, until_ms: int) -> tuple[Ints, npt.NDArray[np.void]]:
        """Return (ticks in ms, ascending; their slots) of the ticks in `[from_ms, until_ms)` that are not empty."""
        first, stop = -(-from_ms // self.precision_ms), -(-until_ms // self.precision_ms)
        if stop <= first:
            return np.zeros(0, np.int64), np.zeros(0, SLOT_DTYPE)
        if stop - first <= _FEW_TICKS:
            ticks = np.arange(first, stop)
            found = self.slots[ticks % WHEEL_SLOTS]
            is_held = found["tick"] == ticks
            ticks, found = ticks[is_held], found[is_held]
        else:
            named = self.slots["tick"].astype(np.int64)
            rows = np.flatnonzero((named >= max(first, 1)) & (named < stop))
            rows = rows[named[rows] % WHEEL_SLOTS == rows]  # skip damaged slots, which store a tick of another slot
            rows = rows[np.argsort(named[rows], kind="stable")]
            ticks, found = named[rows], self.slots[rows]
        return ticks * self.precision_ms, found

    def count_at(self, timestamp_ms: int) -> int:
        """Return how many messages, without deletes, wait in the tick of `timestamp_ms`."""
        tick = timestamp_ms // self.precision_ms
        slot = self.slots[tick % WHEEL_SLOTS]
        return int(slot["num"]) if int(slot["tick"]) == tick else 0

    def add(self, ticks_ms: Ints, positions: Ints, deletes: npt.NDArray[np.bool_]) -> Ints:
        """Add records that will be appended to the timer log at `positions` (ascending); return the prevPos of each.

        A slot that stores another tick is reset first. A delete counts -1.
        """
        previous = np.full(len(ticks_ms), -1, np.int64)
        if len(ticks_ms) == 0:
            return previous
        ticks = ticks_ms // self.precision_ms
        order = np.argsort(ticks, kind="stable")
        ticks, places = ticks[order], positions[order]
        begins = np.append(True, ticks[1:] != ticks[:-1])
        heads = np.flatnonzero(begins)
        tails = np.append(heads[1:], len(ticks)) - 1
        rows = ticks[heads] % WHEEL_SLOTS
        held = self.slots[rows]
        fresh = held["tick"] != ticks[heads]
        links = np.empty(len(ticks), np.int64)
        links[1:] = places[:-1]
        links[heads] = np.where(fresh, -1, held["last"])
        previous[order] = links
        changes = np.add.reduceat(np.where(deletes[order], -1, 1), heads)
        held["num"] = np.where(fresh, 0, held["num"]) + changes
        held["magic"] = np.where(fresh, 0, held["magic"])
        held["first"] = np.where(fresh, places[heads], held["first"])
        held["last"], held["tick"] = places[tails], ticks[heads]
        self.slots[rows] = held
        self._changed.append(rows)
        return previous

    def octets(self) -> memoryview:
        """Return the bytes of the file."""
        return self.slots.view(np.uint8).data

    def clear(self) -> None:
        """Empty every slot."""
        self.slots = np.zeros(WHEEL_SLOTS, SLOT_DTYPE)
        self._changed = []

    def save_as(self, staged: Path, path: Path) -> None:
        """Write the complete wheel to `staged`, then rename that to `path`."""
        fd = os_files.open_file(staged, write=True, create=True)
        try:
            os_files.preallocate(fd, staged, WHEEL_SIZE)
            os_files.write_at(fd, staged, 0, self.octets())
            os_files.sync_file(fd, staged)
        finally:
            os_files.close_file(fd)
        os_files.rename(staged, path)
        os_files.sync_directory(path.parent)
        self._changed = []

    def save_changes(self, path: Path) -> None:
        """Write the slots that changed since the last save into the file at `path`."""
        if not self._changed:
            return
        fd = os_files.open_file(path, write=True)
        try:
            octets = self.octets()
            for start, stop in _runs(np.unique(np.concatenate(self._changed))):
                os_files.write_at(fd, path, start * SLOT_SIZE, octets[start * SLOT_SIZE : stop * SLOT_SIZE])
            os_files.sync_file(fd, path)
        finally:
            os_files.close_file(fd)
        self._changed = []


def _runs(rows: npt.NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yield `[start, stop)` of each run of rows that are at most `_NEAR` apart."""
    cuts = np.flatnonzero(np.diff(rows) > _NEAR) + 1
    for part in np.split(rows, cuts):
        yield int(part[0]), int(part[-1]) + 1
