"""The ends of queues: no queue offset that was synced is assigned a second time.

A queue's end is what its records claim, what a writer recorded, and what its units show of records that the log does
not have anymore. Units that the open removes or moves to `quarantine/` are asked as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files.directory_entries import directory_entries, is_file_name
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.metadata.native.stop_record import read_piece
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE, UNIT_DTYPE
from rocketflow_store.recovery.quarantine import Quarantine
from rocketflow_store.views.queues.claimed_places import DamagedBytes
from rocketflow_store.views.queues.consume_queue import written
from rocketflow_store.views.queues.lost_units import end_of_lost, end_of_lost_batches
from rocketflow_store.views.queues.placeholder import LogExtent
from rocketflow_store.views.queues.queue_gaps import blank_slots, lost_slots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.recovery.observation import Observation
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.queue_table import FileQueueTable

    Queue = tuple[str, int]

_UNITS_AT_ONCE: Final = 1 << 12
_NAME_DIGITS: Final = 20


class QueueEnds:
    """The former ends of queues, as far as they were synced."""

    def __init__(
        self,
        found: Observation,
        queues: FileQueueTable,
        batch_queues: BatchQueueTable,
        damage: DamageTable,
        synced: int,
    ) -> None:
        self._paths, self._lost = found.paths, found.lost
        self._queues, self._batch_queues, self._damage = queues, batch_queues, damage
        self._synced = synced
        """The log before this offset was synced."""
        self._ends: dict[Queue, int] = dict(found.lost.ends)
        self._batch_ends: dict[Queue, int] = dict(found.lost.ends)

    def note(self, end: int) -> None:
        """Note how far queues went whose units point at bytes that the log, which ends at `end`, does not have.

        Also store it: the units are removed next, and a stop before `keep` must not lose what they show.
        """
        if not self._is_anything_lost(end):
            return
        lost = self._lost_bytes(end)
        for queue in self._queues.all():
            _raise_to(self._ends, (queue.topic, queue.queue_id), self._synced_end(queue))
        for batch_queue in self._batch_queues.all():
            units = batch_queue.newest_units(lost.begin)
            key = batch_queue.topic, batch_queue.queue_id
            _raise_to(self._batch_ends, key, end_of_lost_batches(units, lost))
        self._note_quarantined(lost)
        if self._synced:
            self._store()

    def _is_anything_lost(self, end: int) -> bool:
        return end < self._synced or bool(self._damage.skipped)

    def _lost_bytes(self, end: int) -> DamagedBytes:
        """Return the bytes that the log, which ends at `end`, had and does not have."""
        return DamagedBytes.of_log(self._damage.skipped, end, self._synced)

    def _note_quarantined(self, lost: DamagedBytes) -> None:
        """Look for units of lost records in the quarantined files of the queues that are rebuilt."""
        quarantine, paths = Quarantine(self._paths), self._paths
        for topic, queue_id in self._lost.all_queues:
            for base, raw in _contents(quarantine.kept(paths.consume_queue / topic / str(queue_id))):
                found = end_of_lost(np.frombuffer(raw, UNIT_DTYPE, len(raw) // UNIT_SIZE), lost)
                if found:
                    _raise_to(self._ends, (topic, queue_id), base // UNIT_SIZE + found)
        for topic, queue_id in self._lost.all_batch_queues:
            for _, raw in _contents(quarantine.kept(paths.batch_consume_queue / topic / str(queue_id))):
                units = np.frombuffer(raw, BATCH_UNIT_DTYPE, len(raw) // BATCH_UNIT_SIZE)
                _raise_to(self._batch_ends, (topic, queue_id), end_of_lost_batches(units, lost))

    def _store(self) -> None:
        """Write the ends, in the name of the writer that was stopped."""
        stored = DurableEnds.load(self._paths) or DurableEnds()
        known = dict(stored.queues)
        for ends in (self._ends, self._batch_ends):
            for key, end in ends.items():
                _raise_to(known, key, end)
        stored.note((*key, end) for key, end in known.items())
        if stored.moved:
            stored.write(self._paths)

    def cut(self, end: int) -> None:
        """Remove units of records at or after `end`, and zero what a crash left after the queues' ends."""
        for queue in self._queues.all():
            self._queues.forget_queue(queue.topic, queue.queue_id)
            stop = self._queues.end(queue.topic, queue.queue_id, end)
            queue.truncate(stop)
            self._queues.forget_queue(queue.topic, queue.queue_id)

    def _synced_end(self, queue: ConsumeQueue) -> int:
        """Return the number after the last unit whose record was synced, even if the record is lost."""
        number = queue.scan_end()
        while number > queue.first_unit:
            start = max(number - _UNITS_AT_ONCE, queue.first_unit)
            units = queue.units_or_zeros(start, number)
            synced = np.flatnonzero(written(units) & (units["phy_offset"] < self._synced))
            if len(synced):
                return start + int(synced[-1]) + 1
            number = start
        return number

    def keep(self, log: LogExtent) -> list[Queue]:
        """Fill the slots up to each queue's former end with units that name lost bytes, so that no offset is reused.

        Return the queues that have fewer messages than before.
        """
        record, ends, of_batches = self._lost.record, self._ends, self._batch_ends
        if record is not None:
            for known, queues in ((ends, record.queues), (of_batches, record.batch_queues)):
                for key, state in queues.items():
                    _raise_to(known, key, state.end)
        if self._is_anything_lost(log.end):
            self._note_quarantined(self._lost_bytes(log.end))
        shrunk, rebuilt = [], self._lost.all_queues
        for key, wanted in ends.items():
            if self._queues.find(*key) is not None or key in rebuilt:
                there = self._queues.end(*key)
                if there < wanted and log.end > 0:
                    if there == 0 and record is not None and record.is_expired(key, log.begin):
                        blank_slots(self._queues.add(*key), there, wanted)
                    else:
                        lost_slots(self._queues.add(*key), there, wanted, self._damage.skipped, log)
                    self._queues.forget_queue(*key)
                    shrunk.append(key)
        for key, wanted in of_batches.items():
            batch_queue = self._batch_queues.find(*key)
            if batch_queue is not None and batch_queue.fill_lost(wanted, log):
                shrunk.append(key)
        return shrunk


def _raise_to(ends: dict[Queue, int], key: Queue, end: int) -> None:
    ends[key] = max(ends.get(key, 0), end)


def _contents(directories: list[Path]) -> Iterator[tuple[int, bytes]]:
    """Yield (first byte's place in the queue, content) of the files of a queue that was moved here or there."""
    for directory in directories:
        for one in directory_entries(directory):
            if one.is_file and is_file_name(one, _NAME_DIGITS):
                yield int(one.name), read_piece(directory / one.name, 0, one.size)
