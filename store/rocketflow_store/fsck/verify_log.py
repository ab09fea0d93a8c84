"""One CommitLog file for `verify`: every record, its queue unit and its index entries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.consume_queue_unit import MAX_EXT_ADDRESS
from rocketflow_store.format.light_queue_properties import LMQ_QUEUE_ID
from rocketflow_store.format.record import MIN_RECORD_SIZE
from rocketflow_store.fsck.findings import Damage, RangeSet
from rocketflow_store.fsck.verify_batch import BatchSum
from rocketflow_store.fsck.verify_index import Compared, ExpectedEntries
from rocketflow_store.log.resync import is_end_blank, next_proven
from rocketflow_store.log.scan_file import RunLength, scan_file
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.model.system_flags import INNER_BATCH_FLAG
from rocketflow_store.model.topic_names import LMQ_PREFIX, SCHEDULE_TOPIC, is_directory_name, is_system_topic
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.record_crc import judge_run
from rocketflow_store.records.decoding.scan import ScanStop
from rocketflow_store.views.dispatch.side_queues import batch_units
from rocketflow_store.views.queues.claimed_places import ClaimedQueues, rows_refuted
from rocketflow_store.views.queues.consume_queue import written
from rocketflow_store.views.queues.queue_holes import leave_out_deleted, leave_out_impossible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.fsck.verify_index import IndexCheck
    from rocketflow_store.reading.store_reader import StoreReader
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows

    Ints = npt.NDArray[np.int64]
    Queue = tuple[str, int]

_STRETCH_BYTES: Final = 32 << 20
_NEAR: Final = 4096
_MAX_SYSTEM_QUEUES: Final = 1024
"""More queues than any topic of the store's own has; a record with a damaged head may claim others."""


@dataclass(frozen=True, slots=True)
class ListedTopics:
    """Topics by their numbers of queues, as `config/topics.json` lists them; None where it does not tell.

    `unlisted` had queues at the last orderly stop without being listed: nobody can have deleted them.
    """

    queues: Mapping[str, int] | None
    unlisted: frozenset[str] = frozenset()

    def allows(self, topic: str, queue_id: int) -> bool | None:
        """Return whether a queue without files can be one of the store; None where its topic was deleted."""
        if self.queues is None:
            return True
        if topic in self.queues:
            return queue_id < self.queues[topic]
        kept = is_system_topic(topic) or topic in self.unlisted
        return True if kept and queue_id < _MAX_SYSTEM_QUEUES else None


@dataclass(slots=True)
class LogContext:
    """What the files of one log have in common. Units and entries of records below `settled` must be there."""

    reader: StoreReader
    index: IndexCheck
    settled: int
    topics: ListedTopics
    bounds: Mapping[Queue, tuple[int, int]]
    told: Callable[[int], None]
    batch_topics: frozenset[str] = frozenset()
    light_queues: frozenset[str] | None = None
    """Light queues that there are, or were; None: whichever a record names."""
    floors: Mapping[str, int] = field(default_factory=dict)
    """Records of these topics below these offsets are of deleted ones."""
    record_crc: tuple[int, int] = (0, 0)
    """Physical offsets in which every record ends with a CRC of itself."""
    tag_entries: TagEntries = field(default_factory=TagEntries)
    """Where every record's TAGS must have an index entry; elsewhere they may."""


@dataclass(slots=True)
class QueueReport:
    """What the records of one file say of one queue (queue offsets)."""

    matched: int = 0
    next_offset: int = 0
    missing: RangeSet = field(default_factory=RangeSet)
    wrong: RangeSet = field(default_factory=RangeSet)
    stray: RangeSet = field(default_factory=RangeSet)
    unserved: int = 0
    """Records that are of it, where it has no unit at all and nothing tells that it must."""
    right: RangeSet = field(default_factory=RangeSet)
    """Of light queues alone: a record names other queues than its own."""

    def update(self, other: QueueReport) -> None:
        self.matched += other.matched
        self.next_offset = max(self.next_offset, other.next_offset)
        self.missing.update(other.missing)
        self.wrong.update(other.wrong)
        self.right.update(other.right)
        self.unserved += other.unserved


@dataclass(slots=True)
class LogFileReport:
    """What one file holds. `end` is the position behind its last sound record; the end blank counts as the file's."""

    records: int = 0
    bytes: int = 0
    end: int = 0
    mark: int = 0
    """Where the end mark stands, in a file that has one."""
    without_record_crc: int = 0
    keyed: bool = False
    """Whether a message has a key."""
    max_store_timestamp: int = 0
    dispatched_phy_offset: int = 0
    """Physical offset of the last sound record that has a ConsumeQueue unit."""
    damage: list[Damage] = field(default_factory=list)
    heads: list[Damage] = field(default_factory=list)
    claims: ClaimedQueues = field(default_factory=ClaimedQueues)
    """Which queue offsets the sound records claim."""
    impossible: list[Damage] = field(default_factory=list)
    """Records that claim what no queue offset can be."""
    queues: dict[Queue, QueueReport] = field(default_factory=dict)
    batches: dict[Queue, BatchSum] = field(default_factory=dict)
    index: Compared = field(default_factory=Compared)


class LogFileCheck:
    """The check of bytes [0, limit) of one file."""

    def __init__(self, context: LogContext, mapped: MappedFile, limit: int) -> None:
        self._context, self._mapped, self._limit = context, mapped, limit
        self._report = LogFileReport()
        self._pairs: list[tuple[Ints, Ints, npt.NDArray[np.bool_]]] = []
        self._stretch = 0
        self._run_length = RunLength()
        self._boundaries = context.reader.record_boundaries()

    def run(self) -> LogFileReport:
        """Go through the file."""
        position, report = 0, self._report
        while position < self._limit:
            try:
                scan = scan_file(self._mapped, position, self._limit, self._run_length.records)
                ends = scan.stop is not ScanStop.LIMIT and is_end_blank(self._mapped, scan.end)
            except UnreadableError as error:
                position = self._damaged(position, error.why)
                continue
            if len(scan.positions):
                position = self._run_of_records(scan.positions, scan.sizes)
                self._run_length.judged(sound=position == scan.end)
                if position != scan.end:
                    continue
            if ends:
                report.bytes += self._mapped.file_size - position
                report.mark = position
                position = report.end = self._mapped.file_size
            elif scan.stop is not ScanStop.LIMIT:
                position = self._damaged(position, "no record where one should begin")
            if position - self._stretch >= _STRETCH_BYTES:
                self._compare_index(position)
        self._compare_index(self._limit)
        return report

    def _run_of_records(self, positions: Ints, sizes: Ints) -> int:
        """Check a run; the position to go on from: behind the run, or behind damage at which it was given up."""
        report, records = self._report, RecordColumns(self._mapped.buffer, positions, sizes)
        run = judge_run(records, self._mapped.file_from_offset, self._context.record_crc)
        report.without_record_crc += run.without_crc
        if run.sound.count:
            self._sound_records(run.sound)
            report.end = int(run.sound.positions[-1] + run.sound.sizes[-1])
            self._context.told(int(run.sound.sizes.sum()))
        for row, why in run.damaged.items():
            self._note(int(positions[row]), int(positions[row] + sizes[row]), why)
        if run.stop == records.count:
            return int(positions[-1] + sizes[-1])
        return self._damaged(int(positions[run.stop]), run.why)

    def _sound_records(self, records: RecordColumns) -> None:
        report, base = self._report, self._mapped.file_from_offset
        rows = rows_of_records(records, base, self._context.reader.config.delay_levels_ms)
        report.records += records.count
        report.bytes += int(records.sizes.sum())
        report.max_store_timestamp = max(report.max_store_timestamp, int(rows.store_timestamps.max()))
        entries, with_unit = rows.entries, np.flatnonzero(rows.queue_of >= 0)
        of_row = entries.of_row
        if len(with_unit):
            report.dispatched_phy_offset = int(rows.phy_offsets[with_unit[-1]])
        must = ~entries.of_tag
        must |= self._context.tag_entries.contains(rows.phy_offsets)[of_row]
        report.keyed = report.keyed or bool(must.any())
        pairs = (records.positions[of_row] << 32) | entries.hashes
        self._pairs.append((pairs, rows.store_timestamps[of_row], must))
        self._units_of(rows, records)

    def _damaged(self, start: int, why: str) -> int:
        """Note damage at `start`; return the next position where a record is proven to begin, or the limit."""
        following = next_proven(self._mapped, start, self._limit, self._boundaries, unreadable=True)
        return self._note(start, self._limit if following is None else following, why)

    def _note(self, start: int, stop: int, why: str) -> int:
        mapped = self._mapped
        known = self._report.damage
        if known and known[-1].position + known[-1].length == start:
            known[-1].length += stop - start
        else:
            known.append(Damage(mapped.file_from_offset + start, stop - start, str(mapped.path), start, why))
        self._context.told(stop - start)
        return stop

    def _compare_index(self, stop: int) -> None:
        """Compare the keys gathered since the last time."""
        start, self._stretch = self._stretch, stop
        base = self._mapped.file_from_offset
        if start >= min(stop, self._context.settled - base):
            self._pairs = []
            return
        none = np.zeros(0, np.int64)
        parts = self._pairs or [(none, none, np.zeros(0, bool))]
        pairs, times, must = (np.concatenate(one) for one in zip(*parts, strict=True))
        self._pairs = []
        stop = min(stop, self._context.settled - base)
        kept = (pairs >> 32) < stop
        expected = ExpectedEntries(pairs[kept] - (start << 32), times[kept], must[kept])
        self._context.index.compare(base + start, base + stop, expected, self._report.index)

    # -- queue units

    def _units_of(self, rows: DispatchRows, records: RecordColumns) -> None:
        """Every record's unit: there, and the same."""
        leave_out_deleted(rows, self._context.floors)
        queued = rows.queue_of >= 0
        leave_out_impossible(rows)
        self._note_impossible(rows, np.flatnonzero(queued & (rows.queue_of < 0)))
        self._report.claims.add(rows)
        skipped = records.sys_flag & INNER_BATCH_FLAG != 0
        for code, (topic, queue_id) in enumerate(rows.queues):
            mine = np.flatnonzero(rows.queue_of == code)
            if topic in self._context.batch_topics:
                self._sum_up(topic, queue_id, rows, mine)
                continue
            mine = mine[~skipped[mine]]
            if len(mine):
                self._compare_units(topic, queue_id, rows, mine)
        for name in sorted({name for _, name, _ in rows.lmq}):
            of_row = np.array([row for row, one, _ in rows.lmq if one == name], np.intp)
            light = replace(
                rows,
                phy_offsets=rows.phy_offsets[of_row],
                sizes=rows.sizes[of_row],
                tags_codes=rows.tags_codes[of_row],
                queue_offsets=np.array([offset for _, one, offset in rows.lmq if one == name], np.int64),
            )
            if is_directory_name(name) or (name, LMQ_QUEUE_ID) in self._context.bounds:
                self._compare_units(name, LMQ_QUEUE_ID, light, np.arange(len(of_row)))

    def _sum_up(self, topic: str, queue_id: int, rows: DispatchRows, mine: npt.NDArray[np.intp]) -> None:
        """Take the units that records of a BatchCQ topic have to have."""
        mine = mine[rows.phy_offsets[mine] < self._context.settled]
        self._report.batches.setdefault((topic, queue_id), BatchSum()).add(batch_units(rows, mine))

    def _note_impossible(self, rows: DispatchRows, mine: npt.NDArray[np.intp]) -> None:
        base, path = self._mapped.file_from_offset, str(self._mapped.path)
        columns = rows.phy_offsets[mine].tolist(), rows.sizes[mine].tolist(), rows.queue_offsets[mine].tolist()
        for phy_offset, size, claimed in zip(*columns, strict=True):
            why = f"says it is queue offset {claimed}, which no queue has"
            self._report.impossible.append(Damage(phy_offset, size, path, phy_offset - base, why))

    def _other_heads(self, rows: DispatchRows, mine: npt.NDArray[np.intp], why: str) -> None:
        """Records whose body is right and whose head cannot be."""
        base, path = self._mapped.file_from_offset, str(self._mapped.path)
        for phy_offset, size in zip(rows.phy_offsets[mine].tolist(), rows.sizes[mine].tolist(), strict=True):
            self._report.heads.append(Damage(phy_offset, size, path, phy_offset - base, why))
            self._report.records -= 1

    def _compare_units(self, topic: str, queue_id: int, rows: DispatchRows, mine: npt.NDArray[np.intp]) -> None:
        context = self._context
        known = context.bounds.get((topic, queue_id))
        light = topic.startswith(LMQ_PREFIX)
        if light:
            if known is None and context.light_queues is not None and topic not in context.light_queues:
                return  # units of light queues were not asked for
        elif known is None and (allowed := context.topics.allows(topic, queue_id)) is None:
            return  # of a topic that was deleted
        elif known is None and not allowed:
            self._other_heads(rows, mine, f"says it is of queue {queue_id} of {topic}, which there never was")
            return
        report = self._report.queues.setdefault((topic, queue_id), QueueReport())
        offsets = rows.queue_offsets[mine]
        must = (rows.phy_offsets[mine] < context.settled) | (offsets < (known[1] if known else 0))
        end = max(known[1] if known else 0, report.next_offset)
        must &= _plausible(offsets, rows.phy_offsets[mine], end, self._limit // MIN_RECORD_SIZE)
        queue = context.reader.find(topic, queue_id)
        if known is None and queue is None:
            report.unserved += int(np.count_nonzero(~must))
        if not must.all():
            mine, offsets = mine[must], offsets[must]
        if len(mine) == 0:
            return
        report.next_offset = max(report.next_offset, int(offsets.max()) + 1)
        if queue is None:
            report.missing.add_numbers(np.unique(offsets))
            return
        order = np.argsort(offsets, kind="stable")
        mine, offsets = mine[order], offsets[order]
        cuts = np.flatnonzero(np.diff(offsets) > _NEAR) + 1
        for part in np.split(np.arange(len(offsets)), cuts):
            rows_here, wanted = mine[part], offsets[part]
            first = max(int(wanted[0]), queue.first_unit)
            units = queue.units_or_zeros(first, int(wanted[-1]) + 1)
            at = wanted - first
            there = (at >= 0) & (at < len(units))
            if not len(units):
                report.missing.add_numbers(np.unique(wanted))
                continue
            chosen = units[np.where(there, at, 0)]
            there &= written(chosen)
            same = (chosen["phy_offset"] == rows.phy_offsets[rows_here]) & (chosen["msg_size"] == rows.sizes[rows_here])
            if topic != SCHEDULE_TOPIC:
                codes = chosen["tags_code"].astype(np.int64)
                same &= (codes == rows.tags_codes[rows_here]) | (codes <= MAX_EXT_ADDRESS)
            report.matched += int(np.count_nonzero(there & same))
            if light:
                report.right.add_numbers(np.unique(wanted[there & same]))
            if not (there & same).all():
                report.missing.add_numbers(np.unique(wanted[~there]))
                report.wrong.add_numbers(np.unique(wanted[there & ~same]))


def _plausible(offsets: Ints, phy_offsets: Ints, end: int, room: int) -> npt.NDArray[np.bool_]:
    """Which queue offsets can be those of neighbours in a queue that reaches to `end`: others come from a damaged head.

    Without this, one flipped bit would claim a queue of 2^60 units. `room` is the number of records that can be in a
    log file.
    """
    if len(offsets) > 1:
        return ~rows_refuted(offsets, phy_offsets)
    return (offsets >= 0) & ((offsets <= end + room) if end else (offsets < 1 << 40))
