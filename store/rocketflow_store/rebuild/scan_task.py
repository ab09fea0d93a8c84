"""The first stage: a range of the log -> units sorted by queue, index entries in the order of the log, and damage."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.kernel import COMPILED
from rocketflow_store.log.resync import is_end_blank, next_proven, next_sound
from rocketflow_store.log.scan_file import RunLength, scan_file
from rocketflow_store.model.errors import StoreAccessError, UnreadableError
from rocketflow_store.model.topic_names import LMQ_PREFIX, is_directory_name
from rocketflow_store.rebuild.parts import PartKind, part_path, write_part
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE, INDEX_ROW_DTYPE, UNIT_DTYPE
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records, sound_rows
from rocketflow_store.records.decoding.record_crc import judge_run
from rocketflow_store.records.decoding.scan import ScanStop
from rocketflow_store.views.dispatch.side_queues import batch_units
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_impossible, drop_lmq_strays
from rocketflow_store.views.queues.rows_by_queue import by_compiled_queue
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries, queues_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from rocketflow_store.rebuild.log_ranges import LogRange
    from rocketflow_store.rebuild.log_source import LogSource
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows

    Ints = npt.NDArray[np.int64]
    Queue = tuple[str, int]

_CODE_BITS: Final = 32


@dataclass(frozen=True, slots=True)
class QueueChoice:
    """Choice of the queues to rebuild: of the requested topics, or (None) of all topics that were not deleted."""

    units: bool = True
    index: bool = True
    topics: frozenset[str] | None = None
    queue_id: int | None = None
    left_out: frozenset[str] = frozenset()
    batch_topics: frozenset[str] = frozenset()
    lmqs: frozenset[str] | None = None
    """LMQs that exist or existed; None: all that records name."""
    unusual_lmqs: frozenset[str] = frozenset()
    """Existing LMQs that RocketFlow would not create: RocketMQ accepts other names."""

    def takes(self, topic: str, queue_id: int) -> bool:
        """Return True if a queue is rebuilt."""
        if not self.units or topic in self.left_out:
            return False
        if self.topics is not None and topic not in self.topics:
            return False
        return self.queue_id is None or queue_id == self.queue_id

    def takes_lmq(self, name: str) -> bool:
        """Return True if an LMQ is rebuilt."""
        if not is_directory_name(name) and name not in self.unusual_lmqs:
            return False
        if not self.takes(name, LMQ_QUEUE_ID):
            return False
        asked = self.topics is not None and name in self.topics
        return asked or self.lmqs is None or name in self.lmqs


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """Settings of all ranges of a log. Without a `side` directory, tasks only count."""

    side: str | None
    log: LogSource
    choice: QueueChoice
    delay_levels_ms: tuple[int, ...]
    record_crc: tuple[int, int] = (0, 0)
    """Physical offsets between which every record ends with its CRC."""
    floors: Mapping[str, int] = field(default_factory=dict)
    """Records of these topics before these physical offsets belong to deleted topics."""
    queues: tuple[Path, int] | None = None
    """The existing ConsumeQueues, and the size of their files: they show where records begin after damage."""
    tag_entries: bool = False
    """True if the index has entries for TAGS (the profile of RocketMQ 5.5)."""
    max_message_size: int = 0
    """The store's `maxMessageSize`: the longest extent of a damaged record."""


@dataclass(frozen=True, slots=True)
class ScanTask:
    """Range `number` of a log."""

    number: int
    range: LogRange
    settings: ScanSettings


@dataclass(slots=True)
class QueueRuns:
    """Rows of a part by queue: run k is `counts[k]` rows from `rows[k]` on.

    They belong to `queues[queue_of[k]]` and claim queue offsets [`firsts[k]`, `stops[k]`); the first record begins at
    physical offset `begins[k]`, the last one at `ends[k]`. A record of a BatchCQ topic may claim several offsets: only
    the order of the records decides the place of its unit.
    """

    queues: list[Queue]
    queue_of: npt.NDArray[np.int32]
    rows: Ints
    counts: Ints
    firsts: Ints
    stops: Ints
    begins: Ints
    ends: Ints

    def __reduce__(self) -> tuple[Any, ...]:
        return _runs_of_known_queues, tuple(getattr(self, name) for name in QueueRuns.__slots__)


_known_queues: dict[Queue, Queue] = {}


def _runs_of_known_queues(queues: list[Queue], queue_of: npt.NDArray[np.int32], *columns: Ints) -> QueueRuns:
    """Unpickle a task's runs; the driver keeps one copy of each queue's name for the reports of all ranges."""
    return QueueRuns([_known_queues.setdefault(one, one) for one in queues], queue_of, *columns)


@dataclass(slots=True)
class ScanReport:
    """Contents of a range: `end` is the position after its last record, or after the end mark of the file."""

    number: int
    end: int = 0
    records: int = 0
    bytes: int = 0
    entries: int = 0
    units: QueueRuns | None = None
    batch_units: QueueRuns | None = None
    damage: list[tuple[int, int, str]] = field(default_factory=list)
    """Physical offsets [from, to), and why."""
    strays: list[tuple[int, int, str]] = field(default_factory=list)
    """Records whose claimed queue offset no queue can have: physical offsets [from, to), and why."""
    unproven: bool = False
    """True if the damage at the range's end has bytes that look like records, without proof that they are."""
    dispatched_phy_offset: int = 0
    """Physical offset of the last undamaged record that has a ConsumeQueue unit."""


def run_scan(task: ScanTask) -> ScanReport:
    """Scan a range, and write its parts to the side directory."""
    return _Scan(task).run()


class _Collected:
    """Units of one kind, collected in the order of the log."""

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        self._codes: dict[Queue, int] = {}
        self._queue_of: list[Ints] = []
        self._offsets: list[Ints] = []
        self._stops: list[Ints] = []
        self._units: list[npt.NDArray[np.void]] = []
        self._counted = False

    def code(self, queue: Queue) -> int:
        """Return the number of a queue."""
        return self._codes.setdefault(queue, len(self._codes))

    def add(self, queue_of: Ints, offsets: Ints, units: npt.NDArray[np.void], counts: Ints | None = None) -> None:
        """Add units of records that claim `counts` queue offsets each (default: one)."""
        self._counted = self._counted or counts is not None
        self._queue_of.append(queue_of)
        self._offsets.append(offsets)
        self._stops.append(offsets + (1 if counts is None else np.maximum(counts, 1)))
        self._units.append(units)

    def sorted(self, *, by_place: bool) -> tuple[QueueRuns, npt.NDArray[np.void]] | None:
        """Return the runs of consecutive queue offsets, and the units in their order.

        With `by_place`, runs of records that claim several offsets stay together.
        """
        if not self._units:
            return None
        queue_of, offsets = np.concatenate(self._queue_of), np.concatenate(self._offsets)
        raw = f"V{self._dtype.itemsize}"  # as raw bytes: numpy would convert numbers to the machine's byte order
        units = np.concatenate([one.view(raw) for one in self._units])
        places = units.view(self._dtype)["phy_offset"]
        if COMPILED is not None and not self._counted:
            found = by_compiled_queue(queue_of, len(self._codes), offsets, places)
            columns = found.ends - found.starts, found.firsts, found.stops, found.begins, found.lasts
            runs = QueueRuns(list(self._codes), found.codes.astype(np.int32), found.starts, *columns)
            return runs, units[found.order].view(self._dtype)
        stops = np.concatenate(self._stops)
        order = np.sort((queue_of << _CODE_BITS) | np.arange(len(queue_of))) & ((1 << _CODE_BITS) - 1)
        queue_of, offsets, stops, places = queue_of[order], offsets[order], stops[order], places[order]
        cuts = (queue_of[1:] != queue_of[:-1]) | (offsets[1:] != stops[:-1])
        if not by_place:
            cuts |= stops[:-1] != offsets[:-1] + 1
        starts = np.concatenate([[0], np.flatnonzero(cuts) + 1])
        last = np.append(starts[1:], len(queue_of)) - 1
        runs = QueueRuns(
            list(self._codes),
            queue_of[starts].astype(np.int32),
            starts,
            last - starts + 1,
            offsets[starts],
            stops[last],
            places[starts].astype(np.int64),
            places[last].astype(np.int64),
        )
        return runs, units[order].view(self._dtype)


class _Scan:
    def __init__(self, task: ScanTask) -> None:
        self._task, self._range, self._settings = task, task.range, task.settings
        self._report = ScanReport(task.number)
        self._run_length = RunLength()
        self._units, self._batches = _Collected(UNIT_DTYPE), _Collected(BATCH_UNIT_DTYPE)
        self._entries: list[npt.NDArray[np.void]] = []
        side = task.settings.side
        if side is not None and not Path(side).is_dir():
            raise StoreAccessError(side, "does not exist")
        self._mapped = task.settings.log.open(task.range.path, task.range.file_from_offset)
        self._boundaries = UnitBoundaries(partial(queues_in, task.settings.queues), task.settings.max_message_size)

    def run(self) -> ScanReport:
        try:
            self._go()
        finally:
            self._mapped.close()
        self._leave()
        return self._report

    def _go(self) -> None:
        mapped, report, stop, limit = self._mapped, self._report, self._range.stop, self._range.limit
        position = self._range.start
        while position < stop:
            self._settings.log.passed(mapped, position)
            try:
                scan = scan_file(mapped, position, limit, self._run_length.records)
                ends = scan.stop is not ScanStop.LIMIT and is_end_blank(mapped, scan.end)
            except UnreadableError as error:
                position = self._damaged(position, error.why)
                continue
            count = int(np.searchsorted(scan.positions, stop))
            if count:
                position = self._run_of_records(scan.positions[:count], scan.sizes[:count])
                self._run_length.judged(sound=position == scan.positions[count - 1] + scan.sizes[count - 1])
                if count < len(scan.positions) or position != scan.end:
                    continue
            if ends:
                report.bytes += mapped.file_size - position
                position = mapped.file_size
            elif scan.stop is not ScanStop.LIMIT and position < stop:
                position = self._damaged(position, "no record where one should begin")
        report.end = position

    def _run_of_records(self, positions: Ints, sizes: Ints) -> int:
        """Take a run of records; return the position after it, or after damage that ended it."""
        settings, base = self._settings, self._mapped.file_from_offset
        place = self._mapped.buffer, positions, sizes
        usual = sound_rows(place, base, settings.delay_levels_ms, settings.record_crc)
        if usual is not None:
            self._sound_records(usual.rows)
            return int(positions[-1] + sizes[-1])
        records = RecordColumns(*place)
        run = judge_run(records, base, settings.record_crc)
        if run.sound.count:
            self._sound_records(rows_of_records(run.sound, base, settings.delay_levels_ms))
        for row, why in run.damaged.items():
            self._note(int(positions[row]), int(positions[row] + sizes[row]), why)
        if run.stop == records.count:
            return int(positions[-1] + sizes[-1])
        return self._damaged(int(positions[run.stop]), run.why)

    def _damaged(self, start: int, why: str) -> int:
        """Note damage; return the next position where a record is proven to begin, or the log's end in this file."""
        limit = self._range.limit
        following = next_proven(self._mapped, start, limit, self._boundaries, unreadable=True)
        if following is None and next_sound(self._mapped, start, limit, unreadable=True) is not None:
            self._report.unproven = True
        return self._note(start, limit if following is None else following, why)

    def _note(self, start: int, stop: int, why: str) -> int:
        base, known = self._mapped.file_from_offset, self._report.damage
        begin = base + start
        if known and known[-1][1] == begin:
            begin, _, why = known.pop()
        known.append((begin, base + stop, why))
        return stop

    def _sound_records(self, rows: DispatchRows) -> None:
        settings, report, choice = self._settings, self._report, self._settings.choice
        report.records += len(rows.sizes)
        report.bytes += int(rows.sizes.sum())
        with_unit = np.flatnonzero(rows.queue_of >= 0)
        if len(with_unit):
            report.dispatched_phy_offset = int(rows.phy_offsets[with_unit[-1]])
        if choice.index:
            found = rows.entries if settings.tag_entries else rows.entries.without_tags()
            of_row = found.of_row
            report.entries += len(of_row)
            if settings.side is not None and len(of_row):
                entries = np.empty(len(of_row), INDEX_ROW_DTYPE)
                entries["phy_offset"], entries["key_hash"] = rows.phy_offsets[of_row], found.hashes
                entries["store_timestamp"] = rows.store_timestamps[of_row]
                self._entries.append(entries)
        if choice.units:
            drop_deleted(rows, settings.floors)
            queued = rows.queue_of >= 0
            drop_impossible(rows)
            self._note_strays(rows, np.flatnonzero(queued & (rows.queue_of < 0)))
            drop_lmq_strays(rows)
            self._take_lmqs(rows)
            self._take_units(rows)

    def _note_strays(self, rows: DispatchRows, strays: npt.NDArray[np.intp]) -> None:
        """Note records whose claimed queue offset no queue can have: they are in no queue, and count as lost."""
        for phy_offset, size, claimed in zip(
            rows.phy_offsets[strays].tolist(),
            rows.sizes[strays].tolist(),
            rows.queue_offsets[strays].tolist(),
            strict=True,
        ):
            why = f"says it is queue offset {claimed}, which no queue has"
            self._report.strays.append((phy_offset, phy_offset + size, why))
            self._report.records -= 1

    def _take_units(self, rows: DispatchRows) -> None:
        choice, queues = self._settings.choice, rows.queues
        codes = np.full(len(queues) + 1, -1, np.int64)  # the last element is for records without a queue
        for at, queue in enumerate(queues):
            if not choice.takes(*queue):
                continue
            if queue[0] in choice.batch_topics:
                mine = np.flatnonzero(rows.queue_of == at)
                if len(mine):
                    code = np.full(len(mine), self._batches.code(queue), np.int64)
                    counts = None if rows.batch_nums is None else rows.batch_nums[mine]
                    self._batches.add(code, rows.queue_offsets[mine], batch_units(rows, mine), counts)
            else:
                codes[at] = self._units.code(queue)
        queue_of = codes[rows.queue_of]
        mine = np.flatnonzero(queue_of >= 0)
        if len(mine) == 0:
            return
        everything = len(mine) == len(queue_of)
        units = np.empty(len(mine), UNIT_DTYPE)
        units["phy_offset"] = rows.phy_offsets if everything else rows.phy_offsets[mine]
        units["msg_size"] = rows.sizes if everything else rows.sizes[mine]
        units["tags_code"] = rows.tags_codes if everything else rows.tags_codes[mine]
        counts = None if rows.batch_nums is None else rows.batch_nums[mine]
        self._units.add(queue_of[mine], rows.queue_offsets[mine], units, counts)

    def _take_lmqs(self, rows: DispatchRows) -> None:
        choice = self._settings.choice
        light = [one for one in rows.lmq if one[1].startswith(LMQ_PREFIX) and choice.takes_lmq(one[1])]
        if not light:
            return
        at = np.array([one[0] for one in light], np.int64)
        units = np.empty(len(light), UNIT_DTYPE)
        units["phy_offset"], units["msg_size"] = rows.phy_offsets[at], rows.sizes[at]
        units["tags_code"] = rows.tags_codes[at]
        codes = np.array([self._units.code((name, LMQ_QUEUE_ID)) for _, name, _ in light], np.int64)
        self._units.add(codes, np.array([one[2] for one in light], np.int64), units)

    def _leave(self) -> None:
        report, side = self._report, self._settings.side
        for kind, collected in ((PartKind.UNITS, self._units), (PartKind.BATCH_UNITS, self._batches)):
            found = collected.sorted(by_place=kind is PartKind.BATCH_UNITS)
            if found is None:
                continue
            if kind is PartKind.UNITS:
                report.units = found[0]
            else:
                report.batch_units = found[0]
            if side is not None:
                write_part(part_path(Path(side), report.number, kind), kind, found[1])
        if self._entries and side is not None:
            entries = np.concatenate(self._entries)
            write_part(part_path(Path(side), report.number, PartKind.ENTRIES), PartKind.ENTRIES, entries)
