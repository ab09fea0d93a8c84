"""Record boundaries according to ConsumeQueue units, which no client can write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.records.arrow.gather import fixed_width_at
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.record_crc import content_faults
from rocketflow_store.views.queues.consume_queue import ConsumeQueue, lost, pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile

_PROBED: Final = 4096
_MOST_AT_ONCE: Final = 1 << 12
_OWN_OFFSET_AT: Final = 28
_PLACE: Final = np.dtype([("phy_offset", "i8"), ("msg_size", "i8"), ("queue", "i4"), ("number", "i8")])


class UnitBoundaries:
    """Record boundaries in a CommitLog file, from the units of all ConsumeQueues that point into it.

    A unit counts if its record is sound and is that queue's message at that offset. The units of one file are read at
    the first call for it. `queues` returns the queues; `max_message_size` is the store's.
    """

    def __init__(self, queues: Callable[[], Iterable[ConsumeQueue]], max_message_size: int) -> None:
        self._queues, self.max_message_size = queues, max_message_size
        self._identities: list[QueueIdentity] = []
        self._known: tuple[int, npt.NDArray[np.void]] = (-1, np.zeros(0, _PLACE))

    def next_position(self, mapped: MappedFile, start: int, limit: int) -> int | None:
        """Return the first position in (start, limit) at which a record begins according to a valid unit, or None."""
        places, base = self._places(mapped), mapped.file_from_offset
        at, stop = np.searchsorted(places["phy_offset"], [base + start + 1, base + limit]).tolist()
        step = 1
        while at < stop:
            part = places[at : min(at + step, stop)]
            for row in np.flatnonzero(_looks_right(mapped, part, limit)).tolist():
                if self._is_right(mapped, part[row]):
                    return int(part["phy_offset"][row]) - base
            at, step = at + step, min(step * 4, _MOST_AT_ONCE)
        return None

    def end_of(self, mapped: MappedFile, start: int) -> int | None:
        """Return the end of the record at position `start` according to its unit, or None without one."""
        places, offset = self._places(mapped), mapped.file_from_offset + start
        first, stop = np.searchsorted(places["phy_offset"], [offset, offset + 1]).tolist()
        sizes = set(places["msg_size"][first:stop].tolist())
        return start + sizes.pop() if len(sizes) == 1 else None

    def _places(self, mapped: MappedFile) -> npt.NDArray[np.void]:
        """Return the units that point into a file, by physical offset."""
        base, known = self._known
        if base != mapped.file_from_offset:
            parts, self._identities = [np.zeros(0, _PLACE)], []
            for queue in self._queues():
                parts.append(_units_in(queue, len(self._identities), mapped))
                exact = not queue.topic.startswith(LMQ_PREFIX)
                self._identities.append(QueueIdentity(queue.topic, queue.queue_id, "", exact=exact))
            known = np.concatenate(parts)  # by queue and number: a stable sort keeps that order for one place
            known = known[np.argsort(known["phy_offset"], kind="stable")]
            self._known = mapped.file_from_offset, known
        return known

    def _is_right(self, mapped: MappedFile, place: np.void) -> bool:
        identity = self._identities[int(place["queue"])]
        position, size = int(place["phy_offset"]) - mapped.file_from_offset, int(place["msg_size"])
        try:
            buffer = mapped.populate(position, position + size)
        except UnreadableError:
            return False
        record = RecordColumns(buffer, np.array([position], np.int64), np.array([size], np.int64))
        record.check_place(place["phy_offset"].reshape(1), place["number"].reshape(1), identity)
        return not record.faults and not content_faults(record)


def queues_in(place: tuple[Path, int] | None) -> Iterator[ConsumeQueue]:
    """Yield the queues of a directory, with files of a given size, one after another; none if it does not exist."""
    directory, file_size = place or (None, 0)
    if directory is None or not directory.is_dir():
        return
    for one in sorted(directory.glob("*/*")):
        if one.name.isdigit() and one.is_dir():
            queue = ConsumeQueue(one, one.parent.name, int(one.name), file_size, write=False)
            try:
                yield queue
            finally:
                queue.close()


def _looks_right(mapped: MappedFile, places: npt.NDArray[np.void], limit: int) -> npt.NDArray[np.bool_]:
    """Return a mask of units that point at a record with their size and its own physical offset."""
    positions = places["phy_offset"] - mapped.file_from_offset
    inside: npt.NDArray[np.bool_] = (positions + places["msg_size"] <= limit) & (places["msg_size"] >= MIN_RECORD_SIZE)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return inside
    try:
        mapped.populate(int(positions[rows[0]]), int(positions[rows[-1]]) + MIN_RECORD_SIZE)
    except UnreadableError:
        return inside  # each is checked separately
    octets = np.frombuffer(mapped.buffer, np.uint8)
    sizes = fixed_width_at(octets, ">i4", positions[rows])
    offsets = fixed_width_at(octets, ">i8", positions[rows] + _OWN_OFFSET_AT)
    inside[rows] = (sizes == places["msg_size"][rows]) & (offsets == places["phy_offset"][rows])
    return inside


def _units_in(queue: ConsumeQueue, number_of_queue: int, mapped: MappedFile) -> npt.NDArray[np.void]:
    """Return the units of `queue` that point into a file of the log."""
    end = queue.written_end()
    first = _first_at(queue, queue.first_unit, end, mapped.file_from_offset)
    stop = _first_at(queue, first, end, mapped.end_offset)
    units = queue.units_or_zeros(first, stop)
    offsets = units["phy_offset"].astype(np.int64)
    rows = np.flatnonzero(_usable(units) & ~lost(units) & (offsets >= mapped.file_from_offset))
    rows = rows[offsets[rows] < mapped.end_offset]
    found = np.zeros(len(rows), _PLACE)
    found["phy_offset"], found["msg_size"] = offsets[rows], units["msg_size"][rows]
    found["queue"], found["number"] = number_of_queue, first + rows
    return found


def _first_at(queue: ConsumeQueue, start: int, stop: int, phy_offset: int) -> int:
    """Return the number of the first unit of `[start, stop)` that points at or after `phy_offset`; gaps are skipped."""
    while start < stop:
        middle = (start + stop) // 2
        unit, at = np.zeros(0, UNIT_DTYPE), middle
        while at < stop and not len(unit):
            some = queue.units_or_zeros(at, min(at + (1 if at == middle else _PROBED), stop))
            at += len(some)
            unit = some[_usable(some)][:1]
        if not len(unit) or int(unit["phy_offset"][0]) >= phy_offset:
            stop = middle
        else:
            start = middle + 1
    return start


def _usable(units: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    usable: npt.NDArray[np.bool_] = written(units) & ~pre_blank(units)
    return usable
