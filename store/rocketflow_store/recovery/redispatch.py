"""The second dispatch of a log's records: units and index entries are a function of the record.

Records whose queue offset others refute lose their unit; slots of damaged and missing records get placeholders.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.log.log_walk import sound_records
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.views.queues.claimed_places import (
    ClaimedQueues,
    DamagedBytes,
    KnownPlaces,
    RefutedClaim,
    are_refuted,
    judge_queue,
    refuted_claims,
)
from rocketflow_store.views.queues.queue_gaps import (
    drop_deleted,
    drop_impossible,
    drop_strays,
    fill_gaps,
    fill_head,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.records.decoding.scan import Scan
    from rocketflow_store.recovery.damage_table import DamageTable
    from rocketflow_store.views.dispatch.dispatcher import Dispatcher
    from rocketflow_store.views.queues.placeholder import LogExtent
    from rocketflow_store.views.queues.queue_table import FileQueueTable

_ROWS_AT_ONCE: Final = 1 << 16

Queue = tuple[str, int]


class ValidRecords:
    """The records of a log that are not skipped; their begins are remembered from the walk."""

    def __init__(self, files: MappedFileQueue, damage: DamageTable, known_scans: dict[int, Scan]) -> None:
        self._files, self._damage, self._known_scans = files, damage, known_scans

    def runs(self, start: int, end: int) -> Iterator[tuple[MappedFile, RecordColumns]]:
        """Yield the records of [start, end), by file."""
        return sound_records(self._files.files, end, self._damage.skipped, start=start, scans=self._known_scans)

    def count(self, start: int, end: int) -> int:
        """Return how many records [start, end) has."""
        return sum(records.count for _, records in self.runs(start, end))


@dataclass(frozen=True, slots=True)
class KnownQueues:
    """Facts about queues before their records are dispatched again."""

    lost: frozenset[Queue] = frozenset()
    recorded: frozenset[Queue] = frozenset()
    """Queues that had messages at the last orderly stop."""
    floors: Mapping[str, int] = field(default_factory=dict)
    """By topic, the physical offset at which the records of a deleted topic of that name end."""
    deleted_topics: frozenset[str] = frozenset()


class Redispatch:
    """The dispatch of the records of one log."""

    def __init__(
        self,
        records: ValidRecords,
        damage: DamageTable,
        queues: FileQueueTable,
        known: KnownQueues,
        delay_levels_ms: Sequence[int],
    ) -> None:
        self._records, self._damage, self._queues, self._known = records, damage, queues, known
        self._delay_levels_ms = delay_levels_ms
        self.newest_timestamp = 0
        """Store time (ms) of the newest record that was dispatched."""
        self._holed: set[Queue] = set()
        """Queues that lack messages which no damage explains."""
        self._heads: dict[Queue, int] = {}
        """Begins of queues that lack their first messages."""

    def run(self, start: int, end: int, dispatcher: Dispatcher) -> tuple[int, dict[Queue, int]]:
        """Dispatch every valid record of [start, end); return how many there were, and the ends of queues."""
        count = 0
        ends: dict[Queue, int] = {}
        waiting: list[DispatchRows] = []
        claims, known_before = ClaimedQueues(), frozenset(self._queues.names())
        for mapped, records in self._records.runs(start, end):
            rows = rows_of_records(records, mapped.file_from_offset, self._delay_levels_ms)
            self._exclude(rows)
            claims.add(rows)
            drop_strays(rows)
            waiting.append(rows)
            self.newest_timestamp = max(self.newest_timestamp, int(rows.store_timestamps.max()))
            if sum(len(one.phy_offsets) for one in waiting) >= _ROWS_AT_ONCE:
                dispatcher.dispatch_all(waiting)
                waiting = []
            count += records.count
            if self._damage.skipped or self._known.lost:
                for code, key in enumerate(rows.queues):
                    mine = rows.queue_offsets[rows.queue_of == code]
                    ends[key] = max(ends.get(key, 0), int(mine.max()) + 1 if len(mine) else 0)
                for _, name, queue_offset in rows.lmq:
                    lmq = name, LMQ_QUEUE_ID
                    ends[lmq] = max(ends.get(lmq, 0), queue_offset + 1)
        if waiting:
            dispatcher.dispatch_all(waiting)
        self._judge(claims, known_before, ends, start, end)
        return count, ends

    def _exclude(self, rows: DispatchRows) -> None:
        """Exclude records of deleted topics, and those whose claimed queue offset is impossible, from the queues."""
        drop_deleted(rows, self._known.floors)
        for code, (topic, _) in enumerate(rows.queues):
            if topic in self._known.deleted_topics:
                rows.queue_of[rows.queue_of == code] = -1
        drop_impossible(rows)

    def _judge(
        self,
        claims: ClaimedQueues,
        known_before: frozenset[Queue],
        ends: dict[Queue, int],
        start: int,
        end: int,
    ) -> None:
        """Remove units of records whose claims others refute; list them, and queue offsets that no record has.

        `ends` gets the ends of queues that lack messages.
        """
        refuted: dict[Queue, list[RefutedClaim]] = {}
        damage = DamagedBytes(self._damage.skipped)

        def expected_first(key: Queue, _: int) -> int | None:
            made = key in self._known.lost or key not in known_before
            return 0 if start == 0 and made and key[0] not in self._known.floors else None

        known = KnownPlaces(damage, {}, expected_first, lambda key: key in known_before or key in self._known.recorded)
        for key, runs in claims:
            judged = judge_queue(key, runs, known)
            if judged.kept and judged.lost and judged.lost[0].stop == judged.kept[0].first:
                self._heads[key] = judged.kept[0].first
            lost = judged.lost
            if not judged.kept and key not in known_before and self._queues.find(*key) is not None:
                self._queues.remove_queue(*key)
            if judged.strays:
                refuted[key] = refuted_claims(judged, runs)
            lost = [one for one in lost if not damage.explains(one)]
            if not judged.kept:
                ends.pop(key, None)
            elif lost or judged.strays:
                ends[key] = max(ends.get(key, 0), judged.kept[-1].stop)
                self._holed.add(key)
            for claim in refuted.get(key, []):
                why = f"says it is queue offset {claim.first} of {key[0]}, queue {key[1]}; other records refute it"
                self._damage.lose_messages(claim.begin, why)
            for one in lost:
                why = f"no record has queue offsets {one.first} to {one.stop - 1} of {key[0]}, queue {key[1]}"
                self._damage.lose_messages(one.begin, why)
        if refuted:
            self._take_back(refuted, start, end)

    def _take_back(self, refuted: dict[Queue, list[RefutedClaim]], start: int, end: int) -> None:
        """Give slots that refuted claims had taken the units of the records that belong there, if any."""
        found = {key: self._queues.find(*key) for key in refuted}
        queues = {key: queue for key, queue in found.items() if queue is not None}
        for key, queue in queues.items():
            for one in refuted[key]:
                first, stop = max(one.first, queue.first_unit), min(one.stop, queue.end_of_files)
                if first < stop:
                    queue.put_bytes(first, bytes(UNIT_SIZE * (stop - first)))
        for mapped, records in self._records.runs(start, end):
            rows = rows_of_records(records, mapped.file_from_offset, self._delay_levels_ms)
            self._exclude(rows)
            for code, key in enumerate(rows.queues):
                if key not in queues:
                    continue
                mine = np.flatnonzero(rows.queue_of == code)
                offsets, wanted = rows.queue_offsets[mine], np.zeros(len(mine), bool)
                for one in refuted[key]:
                    wanted |= (offsets >= one.first) & (offsets < one.stop)
                wanted &= ~are_refuted(refuted[key], offsets, rows.phy_offsets[mine])
                for row in mine[wanted].tolist():
                    unit = np.zeros(1, UNIT_DTYPE)
                    unit["phy_offset"], unit["msg_size"] = rows.phy_offsets[row], rows.sizes[row]
                    unit["tags_code"] = rows.tags_codes[row]
                    queues[key].put(int(rows.queue_offsets[row]), unit)

    def fill_slots(self, ends: Mapping[Queue, int], log: LogExtent) -> None:
        """Fill the slots that damage left empty before `ends` with units that point at it."""
        skipped = self._damage.skipped
        for key, end in ends.items():
            queue = self._queues.find(*key)
            if queue is not None and (skipped or key in self._known.lost or key in self._holed):
                if key in self._heads:
                    fill_head(queue, 0, self._heads[key], skipped, log)
                fill_gaps(queue, end, skipped, log)
