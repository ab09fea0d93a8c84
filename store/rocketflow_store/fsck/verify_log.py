"""Verification of the CommitLog: the records of every file, and the bytes between and after them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.fsck.findings import Damage
from rocketflow_store.fsck.log_report import LogFileReport, LogReport, UnitsReport
from rocketflow_store.fsck.verify_bodies import check_bodies, with_flagged_body
from rocketflow_store.fsck.verify_index import GatheredEntries
from rocketflow_store.fsck.verify_units import UnitsCheck
from rocketflow_store.log.resync import is_complete, is_end_blank, next_proven
from rocketflow_store.log.scan_file import RunLength, scan_file
from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records, sound_rows
from rocketflow_store.records.decoding.record_crc import judge_run
from rocketflow_store.records.decoding.scan import ScanStop
from rocketflow_store.recovery.take_stop_record import is_another

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.fsck.observation import Observation
    from rocketflow_store.fsck.verify_index import IndexCheck
    from rocketflow_store.fsck.verify_units import ListedTopics
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows

    Ints = npt.NDArray[np.int64]

_STRETCH_BYTES: Final = 32 << 20
_ANOTHER_FILE: Final = "is not the file that was here at the last orderly stop"


class Progress:
    """Bytes of the log that were checked, of `total`; threads add to it."""

    def __init__(self, total: int, report: Callable[[int, int], None] | None) -> None:
        self._total, self._report = total, report
        self._done, self._lock = 0, Lock()

    def add(self, count: int) -> None:
        """Count `count` more bytes."""
        with self._lock:
            self._done += count
            done = self._done
        if self._report is not None:
            self._report(done, self._total)


@dataclass(frozen=True, slots=True)
class LogContext:
    """State that the checks of all files of one log share."""

    seen: Observation
    topics: ListedTopics
    index: IndexCheck
    progress: Progress


def check_log(context: LogContext, workers: int) -> LogReport:
    """Check all files up to the observed limit, `workers` at a time."""
    limit = context.seen.limit
    files = [one for one in context.seen.reader.log_files if one.file_from_offset < limit]
    with ThreadPoolExecutor(workers) as pool:
        reports = list(pool.map(lambda one: _check_file(context, one), files))
    units = UnitsReport()
    for report in reports:
        units.update(report.units)
    return LogReport(list(zip(files, reports, strict=True)), units)


def _check_file(context: LogContext, mapped: MappedFile) -> LogFileReport:
    seen = context.seen
    limit = min(mapped.file_size, seen.limit - mapped.file_from_offset)
    head = seen.record.heads.get(mapped.file_from_offset) if seen.record is not None else None
    if head is not None and is_another(mapped, head) and is_complete(mapped, 0, mapped.file_size):
        damage = Damage(mapped.file_from_offset, limit, str(mapped.path), 0, _ANOTHER_FILE, replaced=True)
        return LogFileReport(damage=[damage])
    return LogFileCheck(context, mapped, limit).run()


class LogFileCheck:
    """The check of bytes [0, limit) of one file."""

    def __init__(self, context: LogContext, mapped: MappedFile, limit: int) -> None:
        self._context, self._mapped, self._limit = context, mapped, limit
        self._units = UnitsCheck(context.seen, context.topics, mapped, limit)
        self._report = LogFileReport(units=self._units.report)
        self._entries = GatheredEntries()
        self._stretch = 0
        self._run_length = RunLength()
        self._boundaries = context.seen.reader.record_boundaries()

    def run(self) -> LogFileReport:
        """Check the file."""
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
        """Check a run of records; return the position after it, or after damage that ended it."""
        report, base, seen = self._report, self._mapped.file_from_offset, self._context.seen
        levels = seen.reader.config.delay_levels_ms
        usual = sound_rows((self._mapped.buffer, positions, sizes), base, levels, seen.record_crc)
        if usual is not None:
            report.without_record_crc += usual.without_crc
            self._sound_records(usual.rows, usual.sys_flags)
            return int(positions[-1] + sizes[-1])
        records = RecordColumns(self._mapped.buffer, positions, sizes)
        run = judge_run(records, base, seen.record_crc)
        report.without_record_crc += run.without_crc
        if run.sound.count:
            self._sound_records(rows_of_records(run.sound, base, levels), run.sound.sys_flag)
        for row, why in run.damaged.items():
            self._note(int(positions[row]), int(positions[row] + sizes[row]), why)
        if run.stop == records.count:
            return int(positions[-1] + sizes[-1])
        return self._damaged(int(positions[run.stop]), run.why)

    def _sound_records(self, rows: DispatchRows, sys_flags: npt.NDArray[np.int32]) -> None:
        report, mapped = self._report, self._mapped
        base, size = mapped.file_from_offset, int(rows.sizes.sum())
        report.records += len(rows.sizes)
        report.bytes += size
        report.end = int(rows.phy_offsets[-1] + rows.sizes[-1]) - base
        report.max_store_timestamp = max(report.max_store_timestamp, int(rows.store_timestamps.max()))
        flagged = with_flagged_body(sys_flags)
        if len(flagged):
            flagged_records = RecordColumns(mapped.buffer, rows.phy_offsets[flagged] - base, rows.sizes[flagged])
            check_bodies(flagged_records, mapped.path, report.bad_bodies)
        with_unit = np.flatnonzero(rows.queue_of >= 0) if rows.queue_of[-1] < 0 else (-1,)
        if len(with_unit):
            report.dispatched_phy_offset = int(rows.phy_offsets[with_unit[-1]])
        with_tags = self._context.seen.tag_entries.contains(rows.phy_offsets)
        positions = rows.phy_offsets - (base + self._stretch)
        keyed = self._entries.add(rows.entries, positions, rows.store_timestamps, with_tags)
        report.keyed = report.keyed or keyed
        self._units.check(rows, sys_flags)
        self._context.progress.add(size)

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
        self._context.progress.add(stop - start)
        return stop

    def _compare_index(self, stop: int) -> None:
        """Compare the keys gathered since the last call with the index."""
        start, self._stretch = self._stretch, stop
        base = self._mapped.file_from_offset
        stop = min(stop, self._context.seen.settled - base)
        expected = self._entries.take(stop - start)
        if start < stop:
            self._context.index.compare(base + start, base + stop, expected, self._report.index)
