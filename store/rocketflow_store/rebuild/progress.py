"""Progress of a rebuild in bytes of log, for both of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.rebuild.write_tasks import IndexWriteTask, QueueWriteTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store.rebuild.scan_task import ScanTask
    from rocketflow_store.rebuild.write_tasks import WriteTask

    Progress = Callable[[int, int], None]

WRITING_SHARE: Final = 0.2
"""Share of the second stage in the time of both, measured."""
_ENTRY: Final = 2
"""Cost of an index entry, in units of a queue."""


class ProgressReport:
    """Calls `progress(done, total)`: a byte counts 1 - WRITING_SHARE when it is scanned, the rest after writing."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._scanned, self._written, self._work = 0, 0, 0

    def scanned(self, task: ScanTask) -> None:
        """Count a scanned range; one that is scanned again counts once."""
        self._scanned = min(self._scanned + task.range.stop - task.range.start, self._total)
        self._call()

    def begin_writing(self, tasks: Sequence[WriteTask]) -> None:
        """Set the tasks of the second stage."""
        self._scanned, self._work = self._total, sum(map(_weight, tasks))

    def written(self, task: WriteTask) -> None:
        """Count a task of the second stage that ended."""
        self._written += _weight(task)
        self._call()

    def end(self) -> None:
        """Report that everything is done."""
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _call(self) -> None:
        if self._progress is not None and self._total:
            writing = self._written / self._work if self._work else 0.0
            share = self._scanned / self._total * (1 - WRITING_SHARE) + writing * WRITING_SHARE
            self._progress(int(self._total * share), self._total)


def _weight(task: WriteTask) -> int:
    if isinstance(task, IndexWriteTask):
        return max(task.plan.count * _ENTRY, 1)
    assert isinstance(task, QueueWriteTask)
    return max(sum(one.end - one.base_unit for one in task.files), 1)
