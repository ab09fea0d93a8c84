"""The first stage: the log cut into ranges, scanned by tasks, and their reports combined."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.rebuild.log_ranges import CutPlan, LogRange, cut_ranges, joined, merged
from rocketflow_store.rebuild.log_source import LocalLog
from rocketflow_store.rebuild.scan_task import ScanReport, ScanSettings, ScanTask, run_scan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.rebuild.engine import Engine
    from rocketflow_store.rebuild.log_source import LogSource
    from rocketflow_store.rebuild.store_state import StoreState
    from rocketflow_store.views.queues.claimed_places import LostMessages, RefutedClaim

    Queue = tuple[str, int]

_REMOTE_CUTS: Final = 16
"""Number of files that are cut at the same time, each with requests to object storage."""
_LOOKED_AT: Final = 8 << 20


@dataclass(slots=True)
class LogFindings:
    """Contents of the log: `damage` are physical offsets [from, to), `reported` the damage as the result lists it."""

    reports: list[ScanReport]
    log_end: int
    files: MappedFileQueue
    damage: list[tuple[int, int]] = field(default_factory=list)
    reported: list[dict[str, Any]] = field(default_factory=list)

    def add_lost(self, queue: Queue, lost: LostMessages) -> None:
        """Report queue offsets that no record of the log has, and that no damage explains."""
        offsets = f"offset {lost.first}" if lost.stop == lost.first + 1 else f"offsets {lost.first} to {lost.stop - 1}"
        why = f"no record has queue {offsets} of topic {queue[0]}, queue {queue[1]}"
        self.reported.append(_as_reported(self.files, lost.begin, max(lost.end, lost.begin), why))

    def add_refuted(self, queue: Queue, claim: RefutedClaim, alone: tuple[Queue, LostMessages] | None) -> None:
        """Report a record's refuted claim to queue offsets; `alone` are the only messages without a record."""
        offsets = (
            f"offset {claim.first}" if claim.stop == claim.first + 1 else f"offsets {claim.first} to {claim.stop - 1}"
        )
        why = f"says it is queue {offsets} of topic {queue[0]}, queue {queue[1]}, which other records refute"
        if alone is not None and alone[1].begin <= claim.begin <= alone[1].end:
            (topic, queue_id), lost = alone
            if lost.stop - lost.first == claim.stop - claim.first:
                why += f"; it may be queue offset {lost.first} of topic {topic}, queue {queue_id}"
        self.reported.append(_as_reported(self.files, claim.begin, claim.begin + self._size_at(claim.begin), why))

    def _size_at(self, phy_offset: int) -> int:
        mapped = self.files.find(phy_offset)
        position = 0 if mapped is None else phy_offset - mapped.file_from_offset
        return 0 if mapped is None else int.from_bytes(mapped.bytes_of(position, position + 4), "big")


def log_bytes(state: StoreState, files: Sequence[MappedFile]) -> int:
    """Return the number of bytes of log to scan."""
    return sum(
        min(one.file_size, state.end - one.file_from_offset) for one in files if one.file_from_offset < state.end
    )


def scan_log(
    engine: Engine,
    state: StoreState,
    settings: ScanSettings,
    files: MappedFileQueue,
    done: Callable[[ScanTask], None],
) -> LogFindings:
    """Scan the log; ranges that were cut where no record begins are scanned again as one."""
    plan = CutPlan.of(log_bytes(state, files.files), state.end, engine.workers)
    ranges = _cut(settings.log, files.files, state.end, plan)

    def scanned(tasks: list[ScanTask]) -> list[ScanReport]:
        return engine.run(run_scan, tasks, "scan the log", done)

    reports = scanned([ScanTask(number, one, settings) for number, one in enumerate(ranges)])
    while wrong := joined(ranges, [one.end for one in reports]):
        at = wrong[0]
        ranges[at : at + 2] = [merged(ranges[at], ranges[at + 1])]
        again = scanned([ScanTask(reports[at].number, ranges[at], settings)])
        reports[at : at + 2] = again
    return _combine(state, files, ranges, reports)


def _cut(log: LogSource, files: Sequence[MappedFile], end: int, plan: CutPlan) -> list[LogRange]:
    if isinstance(log, LocalLog):
        return cut_ranges(files, end, plan)
    with ThreadPoolExecutor(_REMOTE_CUTS, "cut") as pool:  # each cut is a request that waits for its answer

        def cut(one: MappedFile) -> list[LogRange]:
            found = cut_ranges([one], end, plan)
            log.passed(one, one.file_size)
            return found

        return [one for found in pool.map(cut, files) for one in found]


def _combine(
    state: StoreState, files: MappedFileQueue, ranges: list[LogRange], reports: list[ScanReport]
) -> LogFindings:
    """Combine the damage of all ranges, and find the end of the log."""
    found = [one for report in reports for one in report.damage]
    end = ranges[-1].file_from_offset + reports[-1].end if ranges else 0
    while found and found[-1][1] == end and found[-1][0] >= state.known_end and not reports[-1].unproven:
        end = found.pop()[0]  # nothing proves that this ever was a complete record
    findings = LogFindings(reports, max(end, state.known_end), files)
    if found and found[-1][1] > findings.log_end:
        found[-1] = found[-1][0], findings.log_end, found[-1][2]
    found += [(start, stop, "the file is missing") for start, stop in state.gaps]
    found = _across_files(sorted(found), files.file_size)
    findings.damage = [(start, stop) for start, stop, _ in found]
    findings.reported = [_as_reported(files, *one) for one in found if not _is_unused_rest(files, one[0], one[1])]
    findings.reported += [_as_reported(files, *one) for report in reports for one in report.strays]
    return findings


def _as_reported(files: MappedFileQueue, start: int, stop: int, why: str) -> dict[str, Any]:
    mapped = files.find(start)
    file = str(files.directory if mapped is None else mapped.path)
    offset = start - (0 if mapped is None else mapped.file_from_offset)
    return {"file": file, "offset": offset, "length": stop - start, "physicalOffset": start, "why": why}


def _across_files(damage: list[tuple[int, int, str]], file_size: int) -> list[tuple[int, int, str]]:
    """Join damage that reaches over the end of a file."""
    found: list[tuple[int, int, str]] = []
    for start, stop, why in damage:
        if found and found[-1][1] == start and start % file_size == 0:
            found[-1] = found[-1][0], stop, found[-1][2]
        else:
            found.append((start, stop, why))
    return found


def _is_unused_rest(files: MappedFileQueue, start: int, stop: int) -> bool:
    """Return True if [start, stop) is only the rest of a file that lacks its end mark."""
    mapped = files.find(start)
    if mapped is None or stop != mapped.end_offset:
        return False
    at = start - mapped.file_from_offset + 8
    while at < mapped.file_size:
        step = min(at + _LOOKED_AT, mapped.file_size)
        if np.frombuffer(mapped.read(at, step - at), np.uint8).any():
            return False
        at = step
    return True
