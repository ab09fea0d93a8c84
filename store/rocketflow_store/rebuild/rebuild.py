"""The course of a rebuild: look, scan, plan, write beside, fill, swap. The store is as it was until the swap begins."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.config import StoreConfig, StorePaths, check_directory
from rocketflow_store.errors import StoreLockedError
from rocketflow_store.files import os_files
from rocketflow_store.files.lock import DirectoryLock, lock_holder
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.index.index_service import IndexService
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.mapped_files.mapped_file_queue import MappedFileQueue
from rocketflow_store.queues.batch_consume_queue import BatchConsumeQueue, BatchQueueTable
from rocketflow_store.queues.consume_queue import ConsumeQueue
from rocketflow_store.queues.queue_holes import fill_holes, lost_slots
from rocketflow_store.queues.queue_table import FileQueueTable
from rocketflow_store.rebuild.engine import Engine, LocalEngine
from rocketflow_store.rebuild.log_ranges import LogRange, cut_ranges, joined, merged, range_size
from rocketflow_store.rebuild.parts import PartKind
from rocketflow_store.rebuild.placing import plan_swap, side_of
from rocketflow_store.rebuild.result import RebuildRequest, RebuildResult
from rocketflow_store.rebuild.scan_task import ScanReport, ScanSettings, ScanTask, run_scan
from rocketflow_store.rebuild.space import check_space, estimated_bytes, index_bytes, parts_bytes, queues_bytes
from rocketflow_store.rebuild.store_state import StoreState, look_at_store, may_have_queues
from rocketflow_store.rebuild.write_plan import IndexFilePlan, QueuePlan, plan_index, plan_queues
from rocketflow_store.rebuild.write_tasks import IndexWriteTask, LogPlace, QueueWriteTask, WriteTask, run_write
from rocketflow_store.recovery.derived_state import fitted_config, leave_stop_record
from rocketflow_store.recovery.derived_swap import finish_swap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[int, int], None]
    Queue = tuple[str, int]

_WAIT_S: Final = 0.2
_FILES_A_TASK: Final = 256
_UNITS_A_TASK: Final = 1 << 22
_WRITING_SHARE: Final = 0.35
"""What the second stage takes, by experience, of the time of the first."""


def rebuild_store(
    path: str | Path,
    request: RebuildRequest | None = None,
    config: StoreConfig | None = None,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> RebuildResult:
    """Make queues and index anew from the log of the store at `path`; `progress(done, total)` is told bytes of log.

    StoreLockedError where another process writes there, StoreFullError where the disk has no room for what is made,
    StoreVersionError where the log has a gap (and `force` is not asked for). Until the swap nothing is changed.
    """
    began, path, request = time.monotonic(), Path(path), request or RebuildRequest()
    check_directory(path, must_exist=True)
    paths = StorePaths.of(path, config)
    chosen: Engine = engine or LocalEngine(1)
    result = RebuildResult(str(path), chosen.name, request.dry_run)
    if request.dry_run:
        running = lock_holder(paths.lock) is not None
        _Rebuild(paths, config, request, chosen, progress, result).preview(running=running)
    else:
        lock = _locked(paths, wait=request.wait)
        try:
            finish_swap(paths)
            had_room = paths.rocketflow.is_dir()
            try:
                _Rebuild(paths, config, request, chosen, progress, result).run()
            finally:
                _tidy(paths)
                if not had_room:
                    with suppress(OSError):
                        os_files.remove_directory(paths.rocketflow)
        finally:
            lock.release()
    result.seconds = time.monotonic() - began
    if request.dry_run:
        result.estimated_seconds = result.seconds * (1 + _WRITING_SHARE)
    return result


def _tidy(paths: StorePaths) -> None:
    """Leave no side directory; a swap that was begun is gone on with, also where it was stopped in the middle.

    Where that fails the journal stays, for the next open.
    """
    try:
        finish_swap(paths)
    except Exception:
        raise
    except BaseException:  # somebody asked to stop: that comes but once
        finish_swap(paths)
        raise


def _locked(paths: StorePaths, *, wait: bool) -> DirectoryLock:
    while True:
        try:
            return DirectoryLock(paths.lock)
        except StoreLockedError:
            if not wait:
                raise
            time.sleep(_WAIT_S)


@dataclass(slots=True)
class _Plans:
    queues: list[QueuePlan]
    batch_queues: list[QueuePlan]
    index: list[IndexFilePlan]


class _Rebuild:
    """One rebuild of one store, under its lock."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig | None,
        request: RebuildRequest,
        engine: Engine,
        progress: Progress | None,
        result: RebuildResult,
    ) -> None:
        self._paths, self._request, self._engine = paths, request, engine
        self._config = fitted_config(paths, config or StoreConfig())
        self._progress, self._result = progress, result
        self._run = f"{self._config.clock.now_ms()}-{os.getpid()}"
        self._files = MappedFileQueue(paths.log_directories(), self._config.mapped_file_size_commit_log, write=False)
        self._damage: list[tuple[int, int]] = []
        self._log_end = 0

    def preview(self, *, running: bool) -> None:
        """Only tell what would be made."""
        try:
            state = look_at_store(self._paths, self._config, self._files, self._request, running=running)
            reports = self._scan(state, side=None)
            self._tell_plans(self._plan(state, reports))
        finally:
            self._files.close()

    def run(self) -> None:
        """All of it."""
        try:
            state = look_at_store(self._paths, self._config, self._files, self._request, running=False)
            self._check_estimate(state)
            parts = side_of(self._paths, self._run).parts
            os_files.make_directory(parts)
            reports = self._scan(state, side=str(parts))
            plans = self._plan(state, reports)
            self._tell_plans(plans)
            self._check_plans(plans)
            holed = self._write(state, plans)
            self._fill(state, plans, holed)
            self._swap(state)
        finally:
            self._files.close()

    # -- the first stage

    def _scan(self, state: StoreState, side: str | None) -> list[ScanReport]:
        """Scan everything; ranges that were cut where no record begins are scanned again as one."""
        config, files = self._config, self._files.files
        total = sum(
            min(one.file_size, state.end - one.file_from_offset) for one in files if one.file_from_offset < state.end
        )
        ranges = cut_ranges(files, state.end, range_size(total, self._engine.workers))
        settings = ScanSettings(
            side, state.choice, tuple(config.delay_levels_ms), state.record_crc, dict(state.deleted.floors)
        )
        done = 0

        def told(task: ScanTask) -> None:
            nonlocal done
            done = min(done + task.range.stop - task.range.start, total)
            if self._progress is not None:
                self._progress(done, total)

        def scanned(tasks: list[ScanTask]) -> list[ScanReport]:
            return self._engine.run(run_scan, tasks, "scan the log", told)

        reports = scanned([ScanTask(number, one, settings) for number, one in enumerate(ranges)])
        while wrong := joined(ranges, [one.end for one in reports]):
            at = wrong[0]
            ranges[at : at + 2] = [merged(ranges[at], ranges[at + 1])]
            again = scanned([ScanTask(reports[at].number, ranges[at], settings)])
            reports[at : at + 2] = again
        self._take(state, ranges, reports)
        return reports

    def _take(self, state: StoreState, ranges: list[LogRange], reports: list[ScanReport]) -> None:
        """Counts, damage, and where the log ends."""
        result = self._result
        result.records = sum(one.records for one in reports)
        result.bytes = sum(one.bytes for one in reports)
        found = [one for report in reports for one in report.damage]
        end = ranges[-1].file_from_offset + reports[-1].end if ranges else 0
        while found and found[-1][1] == end and found[-1][0] >= state.known_end:
            end = found.pop()[0]  # nothing tells that this was ever a whole record
        self._log_end = max(end, state.known_end)
        if found and found[-1][1] > self._log_end:
            found[-1] = found[-1][0], self._log_end, found[-1][2]
        found += [(start, stop, "the file is missing") for start, stop in state.gaps]
        found = self._across_files(sorted(found))
        self._damage = [(start, stop) for start, stop, _ in found]
        for start, stop, why in found:
            if not self._is_unused_rest(start, stop):
                result.damaged.append(self._told_damage(start, stop, why))

    def _told_damage(self, start: int, stop: int, why: str) -> dict[str, Any]:
        mapped = self._files.find(start)
        file = str(self._paths.commit_log if mapped is None else mapped.path)
        offset = start - (0 if mapped is None else mapped.file_from_offset)
        return {"file": file, "offset": offset, "length": stop - start, "physicalOffset": start, "why": why}

    def _across_files(self, damage: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
        """Damage that reaches over the end of a file, as one."""
        found: list[tuple[int, int, str]] = []
        for start, stop, why in damage:
            if found and found[-1][1] == start and start % self._files.file_size == 0:
                found[-1] = found[-1][0], stop, found[-1][2]
            else:
                found.append((start, stop, why))
        return found

    def _is_unused_rest(self, start: int, stop: int) -> bool:
        """Whether [start, stop) is the rest of a file that lacks its end mark, and nothing else."""
        mapped = self._files.find(start)
        if mapped is None or stop != mapped.end_offset:
            return False
        rest = memoryview(mapped.buffer)[start - mapped.file_from_offset + 8 :]
        return not np.frombuffer(rest, np.uint8).any()

    # -- between

    def _plan(self, state: StoreState, reports: list[ScanReport]) -> _Plans:
        config = self._config
        topics = {
            queue[0]
            for one in reports
            for runs in (one.units, one.batch_units)
            if runs is not None
            for queue in runs.queues
        }
        left_out = {one for one in topics if not may_have_queues(state, self._paths, one)}
        self._result.deleted_topics = sorted(left_out | set(state.choice.left_out))
        queues = plan_queues(reports, PartKind.UNITS, config.mapped_file_size_consume_queue // UNIT_SIZE, {}, left_out)
        per_file = config.mapper_file_size_batch_consume_queue // BATCH_UNIT_SIZE
        batches = plan_queues(reports, PartKind.BATCH_UNITS, per_file, self._batch_bases(reports), left_out)
        return _Plans(queues, batches, plan_index(reports, config.max_index_num - 1))

    def _batch_bases(self, reports: list[ScanReport]) -> dict[Queue, int]:
        """Where a batch queue has the unit of its first record: one whose begin went with the log keeps its places."""
        firsts: dict[Queue, int] = {}
        for report in reports:
            runs = report.batch_units
            for at, code in enumerate(runs.queue_of.tolist()) if runs is not None else ():
                assert runs is not None
                firsts.setdefault(runs.queues[code], int(runs.firsts[at]))
        found: dict[Queue, int] = {}
        size = self._config.mapper_file_size_batch_consume_queue
        for (topic, queue_id), first in firsts.items():
            directory = self._paths.batch_consume_queue / topic / str(queue_id)
            if not directory.is_dir():
                continue
            queue = BatchConsumeQueue(directory, topic, queue_id, size, write=False)
            try:
                found[topic, queue_id] = _place_of(queue, first)
            finally:
                queue.close()
        return found

    def _tell_plans(self, plans: _Plans) -> None:
        result, config = self._result, self._config
        every = (*plans.queues, *plans.batch_queues)
        result.queues = len(every)
        result.units = sum(int(file.pieces.counts.sum()) for plan in every for file in plan.files)
        result.index_entries = sum(one.count for one in plans.index)
        result.files = sum(len(plan.files) for plan in every) + len(plans.index)
        result.needed_bytes = (
            parts_bytes(result.units, result.index_entries)
            + queues_bytes(plans.queues, UNIT_SIZE)
            + queues_bytes(plans.batch_queues, BATCH_UNIT_SIZE)
            + index_bytes(plans.index, config)
        )

    # -- room

    def _check_estimate(self, state: StoreState) -> None:
        config, choice = self._config, state.choice
        parts, queues, index = estimated_bytes(
            self._files.files, max(state.end - state.begin, 0), config, units=choice.units, index=choice.index
        )
        side = side_of(self._paths, self._run)
        check_space({side.parts: parts, side.queues: queues, side.index: index})

    def _check_plans(self, plans: _Plans) -> None:
        side = side_of(self._paths, self._run)
        check_space(
            {
                side.queues: queues_bytes(plans.queues, UNIT_SIZE),
                side.batch_queues: queues_bytes(plans.batch_queues, BATCH_UNIT_SIZE),
                side.index: index_bytes(plans.index, self._config),
            }
        )

    # -- the second stage

    def _write(self, state: StoreState, plans: _Plans) -> list[Queue]:
        """Make all files; the queues that have empty slots."""
        tasks = list(self._write_tasks(state, plans))
        reports = self._engine.run(run_write, tasks, "write queues and index", lambda task: None)
        return sorted({queue for one in reports for queue in one.holed})

    def _write_tasks(self, state: StoreState, plans: _Plans) -> Iterator[WriteTask]:
        paths, config, side = self._paths, self._config, side_of(self._paths, self._run)
        log = LogPlace(paths.log_directories(), config.mapped_file_size_commit_log)
        for one in plans.index:  # the longest tasks first
            name = str(side.index / f"{one.number:08d}")
            yield IndexWriteTask(str(side.parts), name, config.max_hash_slot_num, config.max_index_num, log, one)
        for kind, queues, target, room, size in (
            (
                *(PartKind.UNITS, plans.queues, side.queues, paths.consume_queue),
                config.mapped_file_size_consume_queue // UNIT_SIZE * UNIT_SIZE,
            ),
            (
                *(PartKind.BATCH_UNITS, plans.batch_queues, side.batch_queues, paths.batch_consume_queue),
                config.mapper_file_size_batch_consume_queue,
            ),
        ):
            task = QueueWriteTask(kind, str(side.parts), str(target), str(room), size, state.begin, log, ())
            files = [file for plan in queues for file in plan.files]
            start = units = 0
            for at, file in enumerate(files):
                units += file.end - file.base_unit
                if at + 1 == len(files) or at + 1 - start == _FILES_A_TASK or units >= _UNITS_A_TASK:
                    yield replace(task, files=tuple(files[start : at + 1]))
                    start, units = at + 1, 0

    # -- what the log no longer has

    def _fill(self, state: StoreState, plans: _Plans, holed: list[Queue]) -> None:
        """Slots of lost messages get units that name the lost bytes, up to where the queue ended before."""
        choice, record, side = state.choice, state.record, side_of(self._paths, self._run)
        if not choice.units:
            return
        ends = {(one.topic, one.queue_id): one.end for one in plans.queues}
        recorded = {} if record is None else {key: one.end for key, one in record.queues.items()}
        size = self._config.mapped_file_size_consume_queue
        for key in sorted({*holed, *(key for key, end in recorded.items() if end > ends.get(key, 0))}):
            if key not in ends and not self._is_lost(state, self._paths.consume_queue, key):
                continue
            queue = ConsumeQueue(side.queues / key[0] / str(key[1]), *key, size, write=True)
            try:
                end = ends.get(key, 0)
                if key in holed:
                    fill_holes(queue, end, self._damage)
                if end < recorded.get(key, 0) and self._log_end > 0:
                    lost_slots(queue, end, recorded[key], self._damage, self._log_end)
                queue.sync()
            finally:
                queue.close()
        batches = {(one.topic, one.queue_id) for one in plans.batch_queues}
        size = self._config.mapper_file_size_batch_consume_queue
        for key, told in {} if record is None else record.batch_queues.items():
            if key in batches or self._is_lost(state, self._paths.batch_consume_queue, key):
                batch_queue = BatchConsumeQueue(side.batch_queues / key[0] / str(key[1]), *key, size, write=True)
                batch_queue.fill_lost(told.end, self._log_end)
                batch_queue.sync()
                batch_queue.close()

    def _is_lost(self, state: StoreState, room: Path, key: Queue) -> bool:
        """Whether a queue of which the log has nothing was there, and is asked for."""
        there = (room / key[0] / str(key[1])).is_dir()
        taken = state.choice.takes(*key) and may_have_queues(state, self._paths, key[0])
        return taken and not there and self._log_end > 0

    # -- the swap

    def _swap(self, state: StoreState) -> None:
        paths, config, result = self._paths, self._config, self._result
        swap = plan_swap(paths, config, side_of(paths, self._run), state.choice, everything=self._request.everything)
        result.changed_files = len(swap.moves) + len(swap.removed)
        if not result.changed_files:
            return
        swap.begin(paths)
        swap.apply(paths)
        if state.clean and (state.record is not None or paths.meta.exists()):
            self._leave_stop_record()
        swap.end(paths)
        result.swapped = True

    def _leave_stop_record(self) -> None:
        """Record what there is now: the next open must not make it again."""
        paths, config = self._paths, self._config
        queues = FileQueueTable(
            paths.consume_queue, config.mapped_file_size_consume_queue, CommitLogView(self._files), write=False
        )
        batches = BatchQueueTable(paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue, write=False)
        index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=False)
        try:
            queues.refresh()
            batches.refresh()
            leave_stop_record(paths, config, queues, batches, index, self._files, self._log_end)
        finally:
            queues.close()
            batches.close()
            index.close()


def _place_of(queue: BatchConsumeQueue, base_offset: int) -> int:
    """Number of the unit of the record that begins at a queue offset; 0 where there is none."""
    start = queue.first_unit
    end = stop = queue.end_unit
    while start < stop:
        middle = (start + stop) // 2
        if int(queue.units(middle, middle + 1)["msg_base_offset"][0]) < base_offset:
            start = middle + 1
        else:
            stop = middle
    unit = queue.units(start, min(start + 1, end))
    return start if len(unit) and int(unit["msg_base_offset"][0]) == base_offset else 0
