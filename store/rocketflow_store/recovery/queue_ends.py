"""The ends of queues: no queue offset that was synced is assigned a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.views.queues.consume_queue import written
from rocketflow_store.views.queues.placeholder import LogExtent
from rocketflow_store.views.queues.queue_gaps import blank_slots, lost_slots

if TYPE_CHECKING:
    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.recovery.derived_state import LostState
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.queue_table import FileQueueTable

_UNITS_AT_ONCE: Final = 1 << 12


class QueueEnds:
    """The former ends of queues, as far as they were synced."""

    def __init__(self, queues: FileQueueTable, batch_queues: BatchQueueTable, damage: DamageTable, synced: int) -> None:
        self._queues, self._batch_queues, self._damage = queues, batch_queues, damage
        self._synced = synced
        """The log before this offset was synced."""
        self._synced_ends: dict[tuple[str, int], int] = {}

    def cut(self, end: int) -> None:
        """Remove units of records at or after `end`, and zero what a crash left after the queues' ends."""
        for queue in self._queues.all():
            if end < self._synced or self._damage.skipped:  # units at a queue's end may point into damage
                self._synced_ends[queue.topic, queue.queue_id] = self._synced_end(queue)
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

    def keep(self, lost: LostState, log: LogExtent) -> list[tuple[str, int]]:
        """Fill the slots up to each queue's former end with units that name lost bytes, so that no offset is reused.

        Return the queues that have fewer messages than before.
        """
        record = lost.record
        of_batches = dict(lost.ends)
        ends = dict(self._synced_ends)
        for key, wanted in lost.ends.items():
            ends[key] = max(ends.get(key, 0), wanted)
        if record is not None:
            for known, queues in ((ends, record.queues), (of_batches, record.batch_queues)):
                for key, state in queues.items():
                    known[key] = max(known.get(key, 0), state.end)
        shrunk, rebuilt = [], lost.all_queues
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
