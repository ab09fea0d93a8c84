"""Verification of the records of one CommitLog file against their queues: every record must have its unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.fsck.findings import Damage
from rocketflow_store.fsck.log_report import BatchSum, QueueReport, UnitsReport
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG
from rocketflow_store.model.topic_names import LMQ_PREFIX, SCHEDULE_TOPIC, is_directory_name, is_system_topic
from rocketflow_store.records.arrow.gather import in_row
from rocketflow_store.views.dispatch.side_queues import batch_units
from rocketflow_store.views.queues.claimed_places import rows_refuted
from rocketflow_store.views.queues.consume_queue import written
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_impossible
from rocketflow_store.views.queues.rows_by_queue import rows_by_queue

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue

    Ints = npt.NDArray[np.int64]
    Rows = npt.NDArray[np.intp]
    Queue = tuple[str, int]

_NEAR: Final = 4096
_MAX_SYSTEM_QUEUES: Final = 1024
"""More queues than any topic has; a record with a damaged head may claim others."""


@dataclass(frozen=True, slots=True)
class ListedTopics:
    """Topics with their numbers of queues, as `config/topics.json` lists them; None if it cannot be read.

    `unlisted` had queues at the last orderly stop without being listed: they cannot have been deleted.
    """

    queues: Mapping[str, int] | None
    unlisted: frozenset[str] = frozenset()

    def allows(self, topic: str, queue_id: int) -> bool | None:
        """Return True if a queue without files can belong to the store; None if its topic was deleted."""
        if self.queues is None:
            return True
        if topic in self.queues:
            return queue_id < self.queues[topic]
        kept = is_system_topic(topic) or topic in self.unlisted
        return True if kept and queue_id < _MAX_SYSTEM_QUEUES else None


class UnitsCheck:
    """The check of the records in bytes [0, limit) of one file against their units; the result is `report`."""

    def __init__(self, seen: Observation, topics: ListedTopics, mapped: MappedFile, limit: int) -> None:
        self._seen, self._topics, self._mapped, self._limit = seen, topics, mapped, limit
        self._lmqs = seen.lmqs
        self.report = UnitsReport()

    def check(self, rows: DispatchRows, sys_flags: npt.NDArray[np.int32]) -> None:
        """Compare valid records, with their sysFlags, that follow those of the last call."""
        drop_deleted(rows, self._seen.deleted.floors)
        queued = rows.queue_of >= 0
        drop_impossible(rows)
        self._note_impossible(rows, np.flatnonzero(queued & (rows.queue_of < 0)))
        grouped = rows_by_queue(rows)
        self.report.claims.add(rows, grouped)
        skipped = sys_flags & INNER_BATCH_FLAG != 0
        inner = bool(skipped.any())
        for (topic, queue_id), (low, high) in zip(rows.queues, grouped.runs_of(len(rows.queues)), strict=True):
            mine = grouped.order[grouped.starts[low] : grouped.ends[high - 1]] if low < high else grouped.order[:0]
            if topic in self._seen.batch_topics:
                self._sum_up(topic, queue_id, rows, mine)
                continue
            if inner:
                mine = mine[~skipped[mine]]
            if len(mine):
                self._compare_units(topic, queue_id, rows, mine, one_run=high - low == 1 and not inner)
        for name in sorted({name for _, name, _ in rows.lmq}):
            of_row = np.array([row for row, one, _ in rows.lmq if one == name], np.intp)
            light = replace(
                rows,
                phy_offsets=rows.phy_offsets[of_row],
                sizes=rows.sizes[of_row],
                tags_codes=rows.tags_codes[of_row],
                queue_offsets=np.array([offset for _, one, offset in rows.lmq if one == name], np.int64),
            )
            if is_directory_name(name) or (name, LMQ_QUEUE_ID) in self._seen.bounds:
                self._compare_units(name, LMQ_QUEUE_ID, light, np.arange(len(of_row)), one_run=False)

    def _sum_up(self, topic: str, queue_id: int, rows: DispatchRows, mine: Rows) -> None:
        """Add the units that records of a BatchCQ topic must have."""
        mine = mine[rows.phy_offsets[mine] < self._seen.settled]
        self.report.batches.setdefault((topic, queue_id), BatchSum()).add(batch_units(rows, mine))

    def _note_impossible(self, rows: DispatchRows, mine: Rows) -> None:
        base, path = self._mapped.file_from_offset, str(self._mapped.path)
        columns = rows.phy_offsets[mine].tolist(), rows.sizes[mine].tolist(), rows.queue_offsets[mine].tolist()
        for phy_offset, size, claimed in zip(*columns, strict=True):
            why = f"says it is queue offset {claimed}, which no queue has"
            self.report.impossible.append(Damage(phy_offset, size, path, phy_offset - base, why))

    def _other_heads(self, rows: DispatchRows, mine: Rows, why: str) -> None:
        """Note records with a valid body and an impossible head."""
        base, path = self._mapped.file_from_offset, str(self._mapped.path)
        for phy_offset, size in zip(rows.phy_offsets[mine].tolist(), rows.sizes[mine].tolist(), strict=True):
            self.report.heads.append(Damage(phy_offset, size, path, phy_offset - base, why, other_head=True))

    def _compare_units(self, topic: str, queue_id: int, rows: DispatchRows, mine: Rows, *, one_run: bool) -> None:
        """Compare records of one queue with its units; with `one_run` their queue offsets are consecutive."""
        known = self._seen.bounds.get((topic, queue_id))
        if known is None and not self._is_asked_for(topic, queue_id, rows, mine):
            return
        report = self.report.queues.setdefault((topic, queue_id), QueueReport())
        queue = self._seen.reader.find(topic, queue_id)
        if not (one_run and len(mine) > 1 and int(rows.phy_offsets[mine[-1]]) < self._seen.settled):
            must = self._must_be_there(known, report, rows, mine)
            if known is None and queue is None:
                report.unserved += int(np.count_nonzero(~must))
            if not must.all():
                mine = mine[must]
                one_run = False
        if len(mine) == 0:
            return
        if not one_run:
            offsets = rows.queue_offsets[mine]
            if (offsets[1:] < offsets[:-1]).any():
                mine = mine[np.argsort(offsets, kind="stable")]
        last = int(rows.queue_offsets[mine[-1]])
        report.next_offset = max(report.next_offset, last + 1)
        if queue is None:
            report.units.missing.add_numbers(np.unique(rows.queue_offsets[mine]))
            return
        parts = [mine] if one_run else np.split(mine, np.flatnonzero(np.diff(rows.queue_offsets[mine]) > _NEAR) + 1)
        for part in parts:
            compare_neighbours(queue, rows, part, report)

    def _must_be_there(
        self, known: tuple[int, int] | None, report: QueueReport, rows: DispatchRows, mine: Rows
    ) -> npt.NDArray[np.bool_]:
        """Return a mask of the records that must have their unit."""
        offsets = rows.queue_offsets[mine]
        must = (rows.phy_offsets[mine] < self._seen.settled) | (offsets < (known[1] if known else 0))
        end = max(known[1] if known else 0, report.next_offset)
        must &= _plausible(offsets, rows.phy_offsets[mine], end, self._limit // MIN_RECORD_SIZE)
        return must

    def _is_asked_for(self, topic: str, queue_id: int, rows: DispatchRows, mine: Rows) -> bool:
        """Return True if records must have units in a queue without files; note those of queues that cannot exist."""
        if topic.startswith(LMQ_PREFIX):
            return self._lmqs is None or topic in self._lmqs
        allowed = self._topics.allows(topic, queue_id)
        if allowed is False:
            self._other_heads(rows, mine, f"says it is of queue {queue_id} of {topic}, which there never was")
        return bool(allowed)


def compare_neighbours(queue: ConsumeQueue, rows: DispatchRows, mine: Rows, report: QueueReport) -> None:
    """Compare records with the units of their queue offsets, which ascend and are close to each other."""
    begin, stop = int(rows.queue_offsets[mine[0]]), int(rows.queue_offsets[mine[-1]]) + 1
    first = max(begin, queue.first_unit)
    light, tags = queue.topic.startswith(LMQ_PREFIX), queue.topic != SCHEDULE_TOPIC
    if COMPILED is not None and not light and first == begin:
        columns = in_row(rows.queue_offsets), in_row(rows.phy_offsets), in_row(rows.sizes), in_row(rows.tags_codes)
        if COMPILED.same_units(queue.units(first, stop).view(np.uint8), first, in_row(mine), columns, tags):
            report.matched += len(mine)
            return
    wanted = rows.queue_offsets[mine]
    units = queue.units_or_zeros(first, stop)
    if not len(units):
        report.units.missing.add_numbers(np.unique(wanted))
        return
    at = wanted - first
    there = (at >= 0) & (at < len(units))
    chosen = units[np.where(there, at, 0)]
    there &= written(chosen)
    same = (chosen["phy_offset"] == rows.phy_offsets[mine]) & (chosen["msg_size"] == rows.sizes[mine])
    if tags:
        codes = chosen["tags_code"].astype(np.int64)
        same &= (codes == rows.tags_codes[mine]) | (codes <= MAX_EXT_ADDRESS)
    report.matched += int(np.count_nonzero(there & same))
    if light:
        report.right.add_numbers(np.unique(wanted[there & same]))
    if not (there & same).all():
        report.units.missing.add_numbers(np.unique(wanted[~there]))
        report.units.wrong.add_numbers(np.unique(wanted[there & ~same]))


def _plausible(offsets: Ints, phy_offsets: Ints, end: int, room: int) -> npt.NDArray[np.bool_]:
    """Return the mask of plausible offsets in a queue that ends at `end`: others come from a damaged head.

    Without this, one flipped bit would claim a queue of 2^60 units. `room` is the number of records that can be in a
    log file.
    """
    if len(offsets) > 1:
        return ~rows_refuted(offsets, phy_offsets)
    return (offsets >= 0) & ((offsets <= end + room) if end else (offsets < 1 << 40))
