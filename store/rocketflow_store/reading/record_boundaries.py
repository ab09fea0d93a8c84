"""Proofs that a record, requested by its physical offset, begins at a record boundary of the log.

A body has any bytes that its sender chose, even complete records with their true physical offsets. A record is believed
only with a proof that no sender can write: the unit of the message that it claims to be, or the log itself, read record
by record from a proven place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.log.resync import next_proven
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.record_crc import judge_run
from rocketflow_store.records.decoding.scan import ScanStop
from rocketflow_store.views.queues.consume_queue import pre_blank, written
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    Ints = npt.NDArray[np.int64]

_DENSE: Final = 16
"""Units of a queue are read as one range if at most this many are read for each wanted one."""
_WALKED_RECORDS: Final = 1 << 14


class RecordBoundaries:
    """Proofs of where the records of one log begin."""

    def __init__(self, log: CommitLogView, queues: QueueTable, max_message_size: int) -> None:
        self._log, self._queues = log, queues
        self._no_units = UnitBoundaries(tuple, max_message_size)  # units would cost more than the walk
        self._walked: tuple[int, int] = (-1, 0)
        """The file (its begin) that was walked last, and a position in it at which a record begins."""

    def begins(self, message: ReceivedMessage) -> bool:
        """Return True if `message`, as read from the log, begins at a record boundary."""
        place = (message.topic, message.queue_id, message.queue_offset)
        if self._unit_names(place, message.physical_offset, message.store_size):
            return True
        return self._is_walked_to(place, message.physical_offset)

    def first_unproven(self, records: RecordColumns, base: int, delay_levels_ms: Sequence[int]) -> int | None:
        """Return the first row of valid records, in a file that begins at `base`, without a proven place."""
        rows = rows_of_records(records, base, delay_levels_ms)
        proven = np.zeros(records.count, bool)
        for code, (topic, queue_id) in enumerate(rows.queues):
            mine = np.flatnonzero(rows.queue_of == code)
            queue = self._queues.find(topic, queue_id)
            if queue is not None and len(mine):
                wanted = rows.queue_offsets[mine]
                units = _units_at(queue, wanted)
                same = (units["phy_offset"] == rows.phy_offsets[mine]) & (units["msg_size"] == rows.sizes[mine])
                proven[mine] = same & written(units)
        for row in np.flatnonzero(~proven).tolist():
            code, place = int(rows.queue_of[row]), ("", -1, 0)
            if code >= 0:
                place = *rows.queues[code], int(rows.queue_offsets[row])
            phy_offset, size = int(rows.phy_offsets[row]), int(rows.sizes[row])
            if not self._unit_names(place, phy_offset, size) and not self._is_walked_to(place, phy_offset):
                return row
        return None

    def _unit_names(self, place: tuple[str, int, int], phy_offset: int, size: int) -> bool:
        """Return True if the unit of a message points at a record of this size there."""
        topic, queue_id, queue_offset = place
        batch_queue = self._queues.find_batch(topic, queue_id)
        if batch_queue is not None:
            units = batch_queue.units_holding(queue_offset, queue_offset + 1)
        else:
            queue = self._queues.find(topic, queue_id)
            if queue is None or not queue.first_unit <= queue_offset < queue.end_of_files:
                return False
            units = queue.units(queue_offset, queue_offset + 1)
        return len(units) > 0 and (int(units["phy_offset"][0]), int(units["msg_size"][0])) == (phy_offset, size)

    def _is_walked_to(self, place: tuple[str, int, int], phy_offset: int) -> bool:
        """Return True if the records of the file, from the last proven place before `phy_offset` on, lead there."""
        held = self._log.file_at(phy_offset)
        if held is None:
            return False
        base, wanted = held.file_from_offset, phy_offset - held.file_from_offset
        position = self._unit_before(place, phy_offset) - base
        known, walked = self._walked
        position = max(position, walked if known == base and walked <= wanted else 0, 0)
        try:
            while position < wanted:
                following = _next(held, position, wanted, self._no_units)
                if following is None:
                    return False
                position = following
        except UnreadableError:
            return False
        if position == wanted:
            self._walked = base, position
        return position == wanted

    def _unit_before(self, place: tuple[str, int, int], phy_offset: int) -> int:
        """Return the physical offset of a record before `phy_offset` whose unit is right, in its queue; -1 if none."""
        topic, queue_id, _ = place
        queue = self._queues.find(topic, queue_id)
        if queue is None:
            return -1
        low = queue.first_at_or_after(phy_offset, self._queues.bounds(topic, queue_id)[1])
        unit = queue.units(max(low - 1, queue.first_unit), low)
        if not len(unit) or not written(unit)[0] or pre_blank(unit)[0]:
            return -1
        found, size = int(unit["phy_offset"][0]), int(unit["msg_size"][0])
        return found if found < phy_offset and self._log.holds(found, size, (topic, queue_id, low - 1)) else -1


def _next(mapped: MappedFile, position: int, wanted: int, boundaries: UnitBoundaries) -> int | None:
    """Return a record boundary after `position`, none after `wanted` unless the log leads past it; None at its end."""
    scan = scan_file(mapped, position, mapped.file_size, _WALKED_RECORDS)
    count = int(np.searchsorted(scan.positions, wanted))
    if count:
        positions, sizes = scan.positions[:count], scan.sizes[:count]
        run = judge_run(RecordColumns(mapped.buffer, positions, sizes), mapped.file_from_offset, (0, 0))
        sound = min(run.damaged, default=run.stop)  # a record that leads into its own body may seem to have a follower
        if sound:
            return int(positions[sound - 1] + sizes[sound - 1])
    elif scan.stop is ScanStop.BLANK:
        return None
    return next_proven(mapped, position, mapped.file_size, boundaries)


def _units_at(queue: ConsumeQueue, wanted: Ints) -> npt.NDArray[np.void]:
    """Return the units with these numbers; zeros if there is none."""
    inside = (wanted >= queue.first_unit) & (wanted < queue.end_of_files)
    found = np.zeros(len(wanted), queue.UNIT_DTYPE)
    if not inside.any():
        return found
    first, stop = int(wanted[inside].min()), int(wanted[inside].max()) + 1
    if stop - first <= _DENSE * len(wanted):
        found[inside] = queue.units_or_zeros(first, stop)[wanted[inside] - first]
    else:
        for row in np.flatnonzero(inside).tolist():
            found[row] = queue.units(int(wanted[row]), int(wanted[row]) + 1)[0]
    return found
