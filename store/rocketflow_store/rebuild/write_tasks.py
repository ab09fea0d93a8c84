"""The second stage: complete files of queues and index, written in the side directory and checked against the log."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.consume_queue_unit import PRE_BLANK_UNIT
from rocketflow_store.model.errors import RebuildFailedError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.rebuild.chain_check import ChainCheck
from rocketflow_store.rebuild.log_source import log_view
from rocketflow_store.rebuild.parts import PartKind, Parts, attempt, finished
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.views.index.index_build import build_index_file
from rocketflow_store.views.index.index_table import IndexHeader
from rocketflow_store.views.queues.batch_consume_queue import written_batches
from rocketflow_store.views.queues.consume_queue import pre_blank, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.rebuild.log_source import LogSource
    from rocketflow_store.rebuild.write_plan import IndexFilePlan, QueueFilePlan

    Units = npt.NDArray[np.void]

_OPEN_AT_ONCE: Final = 64
"""The most files that a task has open: a process may have few descriptors."""
_WINDOW: Final = 8
"""Units of each run that is checked against its records; `LogSource.samples` is the number of runs of a file."""


@dataclass(frozen=True, slots=True)
class QueueWriteTask:
    """Files of queues of one kind, to write below `target`; their final place is below `final`."""

    kind: PartKind
    side: str
    target: str
    final: str
    file_size: int
    min_phy_offset: int
    log: LogSource
    files: tuple[QueueFilePlan, ...]


@dataclass(frozen=True, slots=True)
class IndexWriteTask:
    """One index file, to write as `target`."""

    side: str
    target: str
    hash_slot_num: int
    index_num: int
    plan: IndexFilePlan


@dataclass(slots=True)
class WriteReport:
    """Numbers of written units or entries and files, and the queues with empty slots."""

    rows: int = 0
    files: int = 0
    holed: list[tuple[str, int]] = field(default_factory=list)


WriteTask = QueueWriteTask | IndexWriteTask


def run_write(task: WriteTask) -> WriteReport:
    """Write the files of a task durably."""
    return _write_index(task) if isinstance(task, IndexWriteTask) else _QueueWriter(task).run()


class _WrittenFiles:
    """Open files that are synced, and get their names, after all of them are written: write-back has begun by then."""

    def __init__(self) -> None:
        self._open: list[tuple[int, Path, Path]] = []

    def add(self, own: Path, path: Path) -> int:
        """Create a file that gets the name `path`; return its descriptor. Too many open files are finished first."""
        if len(self._open) >= _OPEN_AT_ONCE:
            self.finish()
        fd = os_files.open_file(own, write=True, create=True)
        self._open.append((fd, own, path))
        return fd

    def finish(self) -> None:
        """Make the files durable, and give them their names."""
        for fd, own, path in self._open:
            os_files.sync_file(fd, path)
            finished(own, path)
        self.close()

    def close(self) -> None:
        """Close the files."""
        files, self._open = self._open, []
        for fd, _, _ in files:
            os_files.close_file(fd)


class _QueueWriter:
    def __init__(self, task: QueueWriteTask) -> None:
        self._task = task
        self._parts = Parts(Path(task.side), task.kind)
        self._batches = task.kind is PartKind.BATCH_UNITS
        self._dtype = task.kind.dtype
        self._report = WriteReport()

    def run(self) -> WriteReport:
        files, log = log_view(self._task.log)
        directory, written_files = None, _WrittenFiles()
        try:
            for plan in self._task.files:
                there = Path(self._task.target) / plan.topic / str(plan.queue_id)
                if there != directory:
                    os_files.make_directory(there)
                    directory = there
                path = there / file_name(plan.base_unit * self._dtype.itemsize)
                fd = written_files.add(attempt(path), path)
                self._write(plan, fd, path)
                self._check_against_log(plan, fd, path, log)
            written_files.finish()
        finally:
            written_files.close()
            files.close()
        return self._report

    def _write(self, plan: QueueFilePlan, fd: int, path: Path) -> None:
        task, report = self._task, self._report
        end = plan.end - plan.base_unit
        units = np.zeros(end, self._dtype)
        head = plan.first - plan.base_unit if plan.begins_queue else 0
        if head:
            units[:head] = self._head(plan, head)
        for part, row, count, at in plan.pieces.each():
            units[at : at + count] = self._parts.rows(part, row, count)
        if not self._batches and not written(units[head:]).all():
            report.holed.append((plan.topic, plan.queue_id))
        os_files.make_sparse(fd, path, task.file_size)
        os_files.write_at(fd, path, 0, memoryview(units.view(np.uint8).data))
        os_files.begin_writeback(fd, 0, units.nbytes)
        report.rows += int(plan.pieces.counts.sum())
        report.files += 1

    def _head(self, plan: QueueFilePlan, count: int) -> Units:
        """Return the slots before a queue's first unit: the units of records that retention removed, else fillers."""
        units = np.zeros(count, self._dtype)
        if not self._batches:
            units[:] = np.frombuffer(PRE_BLANK_UNIT, self._dtype)[0]
        name = file_name(plan.base_unit * self._dtype.itemsize)
        old = Path(self._task.final) / plan.topic / str(plan.queue_id) / name
        if not old.is_file():
            return units
        fd = os_files.open_file(old, write=False)
        try:
            there = os_files.read_at(fd, 0, units.nbytes, old)
        finally:
            os_files.close_file(fd)
        known = np.frombuffer(there, self._dtype, len(there) // self._dtype.itemsize)
        kept = (written_batches(known) if self._batches else written(known) & ~pre_blank(known)) & (
            known["phy_offset"] < self._task.min_phy_offset
        )
        units[: len(known)][kept] = known[kept]
        return units

    def _check_against_log(self, plan: QueueFilePlan, fd: int, path: Path, log: CommitLogView) -> None:
        """Read the file back, and check that samples of its units point at records that claim these units' places.

        Raises:
            RebuildFailedError: a unit points elsewhere.
        """
        width, low, high = self._dtype.itemsize, plan.first - plan.base_unit, plan.end - plan.base_unit
        raw = os_files.read_at(fd, low * width, (high - low) * width, path)
        if len(raw) != (high - low) * width:
            raise RebuildFailedError(path, "is shorter than what was written to it")
        found = np.frombuffer(raw, self._dtype)
        starts = np.unique(
            np.append(np.linspace(0, max(len(found) - _WINDOW, 0), self._task.log.samples, dtype=np.int64), 0)
        )
        rows = np.unique((starts[:, None] + np.arange(_WINDOW)).ravel())
        rows = rows[rows < len(found)]
        units = found[rows]
        filled = written_batches(units) if self._batches else written(units)
        units, rows = units[filled], rows[filled]
        offsets = units["msg_base_offset"].astype(np.int64) if self._batches else rows + plan.first
        identity = QueueIdentity(plan.topic, plan.queue_id, "", exact=not plan.topic.startswith(LMQ_PREFIX))
        places = units["phy_offset"].astype(np.int64)
        checked = 0
        for mine, mapped in log.by_file(places):
            records = log.columns(mapped, units[mine])
            records.check_place(places[mine], offsets[mine], identity)
            if records.faults:
                row = min(records.faults)
                raise RebuildFailedError(path, f"unit {int(offsets[mine][row])}: {records.faults[row]}")
            checked += records.count
        if checked != len(units):
            raise RebuildFailedError(path, "points at parts of the log that do not exist")


def _write_index(task: IndexWriteTask) -> WriteReport:
    parts, plan, path = Parts(Path(task.side), PartKind.ENTRIES), task.plan, Path(task.target)
    before = None
    if plan.before is not None:
        last = parts.rows(*plan.before, 1)[0]
        before = IndexHeader(end_timestamp=int(last["store_timestamp"]), end_phy_offset=int(last["phy_offset"]))
    own = attempt(path)
    os_files.make_directory(own.parent)
    check = ChainCheck(own, path, task.hash_slot_num, task.index_num)
    try:
        build_index_file(own, task.hash_slot_num, task.index_num, before, _blocks(parts, plan), check.written)
    finally:
        check.stop()
    check.finish(plan.count)
    fd = os_files.open_file(own, write=True)
    try:
        os_files.sync_file(fd, path)
    finally:
        os_files.close_file(fd)
    finished(own, path)
    return WriteReport(plan.count, 1)


def _blocks(parts: Parts, plan: IndexFilePlan) -> Iterator[npt.NDArray[np.void]]:
    """Yield the entries of a file, in their order."""
    for part, row, count, _ in plan.pieces.each():
        yield parts.rows(part, row, count)
