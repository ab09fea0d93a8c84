"""Verification of the units of BatchCQ topics against the log.

The place of a unit does not follow from its queue offset, so a queue is compared with its records in total: their
number and a sum over the bytes of their units. Only if these differ are units and records compared one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.fsck.log_report import BatchSum
from rocketflow_store.fsck.unit_ranges import UnitPlaces, UnitRanges
from rocketflow_store.log.log_walk import sound_records
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.views.dispatch.side_queues import batch_units
from rocketflow_store.views.queues.batch_consume_queue import written_batches
from rocketflow_store.views.queues.claimed_places import are_refuted
from rocketflow_store.views.queues.consume_queue import lost
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_impossible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from rocketflow_store.fsck.findings import Findings
    from rocketflow_store.fsck.log_damage import LogDamage
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.fsck.verify_claims import JudgedQueues
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.claimed_places import RefutedClaim

    Ints = npt.NDArray[np.int64]
    Units = npt.NDArray[np.void]
    Queue = tuple[str, int]

_BLOCK: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class CheckedBatchQueues:
    """Queues that must be rebuilt, and the ends of all queues."""

    wrong: set[Queue] = field(default_factory=set)
    ends: dict[Queue, int] = field(default_factory=dict)


class BatchQueuesCheck:
    """The check of the queues of all BatchCQ topics; `topics` are those that the store lists, None if unknown."""

    def __init__(self, seen: Observation, topics: Mapping[str, int] | None, judged: JudgedQueues) -> None:
        self._seen, self._topics, self._judged = seen, topics, judged

    def run(self, expected: Mapping[Queue, BatchSum], damage: LogDamage, found: Findings) -> CheckedBatchQueues:
        """Compare every queue with the units that the log's records must have in it."""
        reader, checked = self._seen.reader, CheckedBatchQueues()
        for key in sorted({*reader.batch_names(), *expected}):
            queue, units = reader.find_batch(*key), expected.get(key, BatchSum())
            if queue is None and self._topics is not None and key[0] not in self._topics:
                continue  # its topic was deleted
            refuted = self._judged.refuted.get(key, ())
            if refuted:
                units.next_offset = self._judged.last_claim(key)[0]
            check = BatchQueueCheck(self._seen, key, damage, refuted)
            checked.ends[key] = max(queue.bounds(0)[1] if queue is not None else 0, units.next_offset)
            if check.is_sound(units):
                continue
            ranges = check.ranges()
            if ranges:
                checked.wrong.add(key)
            directory = reader.paths.batch_consume_queue / key[0] / str(key[1])
            size = queue.file_size if queue is not None else reader.config.mapper_file_size_batch_consume_queue
            UnitPlaces(directory, size, BATCH_UNIT_SIZE, "unit").report(ranges, found)
        return checked


class BatchQueueCheck:
    """The check of one queue: the records of the log before `seen.settled_units` must have their units."""

    def __init__(self, seen: Observation, key: Queue, damage: LogDamage, refuted: Sequence[RefutedClaim] = ()) -> None:
        self._seen, self._key, self._damage, self._refuted = seen, key, damage, refuted
        self._low, self._settled = seen.reader.min_phy_offset, seen.settled_units
        self._queue = seen.reader.find_batch(*key)

    def is_sound(self, expected: BatchSum) -> bool:
        """Return True if the queue has exactly the units of the records whose claims are believed, in their order."""
        for claim in self._refuted:
            for rows, at in self._rows(claim.begin, claim.end + 1):
                refuted = are_refuted([claim], rows.queue_offsets[at], rows.phy_offsets[at])
                expected.subtract(batch_units(rows, at[refuted]))
        mine, before = BatchSum(), -1
        queue = self._queue
        if queue is None:
            return expected.count == 0
        for start in range(queue.first_unit, queue.end_unit, _BLOCK):
            units = queue.units(start, min(start + _BLOCK, queue.end_unit))
            places = units["phy_offset"].astype(np.int64)
            real = ~lost(units)
            rising = np.append(before, places[real])
            if not (np.diff(rising) > 0).all():
                return False
            before = int(rising[-1])
            mine.add(units[real & (places >= self._low) & (places < self._settled)])
        return (mine.count, mine.total) == (expected.count, expected.total) and _last_written(queue) == queue.end_unit

    def ranges(self) -> UnitRanges:
        """Compare units and records one by one; return the wrong units."""
        found = UnitRanges()
        there = self._there()
        numbers, units = np.zeros(0, np.int64), np.zeros(0, BATCH_UNIT_DTYPE)
        following = 0
        for wanted in self._wanted():
            while len(units) < len(wanted):
                more = next(there, None)
                if more is None:
                    break
                numbers, units = np.concatenate([numbers, more[0]]), np.concatenate([units, more[1]])
            count = min(len(units), len(wanted))
            same = units[:count] == wanted[:count]
            is_there = written_batches(units[:count])
            found.wrong.add_numbers(numbers[:count][is_there & ~same])
            found.missing.add_numbers(numbers[:count][~is_there])
            following = int(numbers[count - 1]) + 1 if count else following
            if count < len(wanted):
                found.missing.add(following, following + len(wanted) - count)
                following += len(wanted) - count
            numbers, units = numbers[count:], units[count:]
        while len(units):
            found.stray.add_numbers(numbers[units.view(np.uint8).reshape(len(units), -1).any(axis=1)])
            numbers, units = next(there, (numbers[:0], units[:0]))
        return found

    def _there(self) -> Iterator[tuple[Ints, Units]]:
        """Yield (numbers, units) of the queue, without those of removed, damaged, lost and unsettled records."""
        queue = self._queue
        if queue is None:
            return
        leading = True
        for start in range(queue.first_unit if self._low else 0, _last_written(queue), _BLOCK):
            units = queue.units_or_zeros(start, min(start + _BLOCK, _last_written(queue)))
            places, is_there = units["phy_offset"].astype(np.int64), written_batches(units)
            kept = ~lost(units) & ~(is_there & (places >= self._settled))
            kept[is_there] &= ~self._damage.claim(places[is_there])
            if leading:
                removed = is_there & (places < self._low)
                count = len(units) if removed.all() else int(np.argmin(removed))
                kept[:count] = False
                leading = count == len(units)
            yield np.flatnonzero(kept) + start, units[kept]

    def _wanted(self) -> Iterator[Units]:
        """Yield the units of the log's records."""
        for rows, mine in self._rows(self._low, self._settled):
            refuted = are_refuted(self._refuted, rows.queue_offsets[mine], rows.phy_offsets[mine])
            yield batch_units(rows, mine[~refuted & (rows.phy_offsets[mine] >= self._low)])

    def _rows(self, start: int, stop: int) -> Iterator[tuple[DispatchRows, npt.NDArray[np.intp]]]:
        """Yield records of [start, stop), and the rows that claim to belong to the queue."""
        reader, floors = self._seen.reader, self._seen.deleted.floors
        for mapped, records in sound_records(reader.log_files, stop, self._damage.ranges, start=start):
            rows = rows_of_records(records, mapped.file_from_offset, reader.config.delay_levels_ms)
            drop_deleted(rows, floors)
            drop_impossible(rows)
            if self._key in rows.queues:
                yield rows, np.flatnonzero(rows.queue_of == list(rows.queues).index(self._key))


def _last_written(queue: BatchConsumeQueue) -> int:
    """Return the number after the last unit that is not zero."""
    stop = queue.end_of_files
    while stop > queue.first_unit:
        start = max(stop - _BLOCK, queue.first_unit)
        units = queue.units_or_zeros(start, stop)
        some = np.flatnonzero(units.view(np.uint8).reshape(len(units), -1).any(axis=1))
        if len(some):
            return start + int(some[-1]) + 1
        stop = start
    return stop
