"""How far a rebuild is, in bytes of log, for both of its stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.rebuild.write_tasks import IndexWriteTask, QueueWriteTask

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rocketflow_store.rebuild.scan_task import ScanTask
    from rocketflow_store.rebuild.write_tasks import WriteTask

    Progress = Callable[[int, int], None]

WRITING_SHARE: Final = 0.2
"""What the second stage takes, by experience, of the time of both."""
_ENTRY: Final = 2
"""What an index entry costs, in units of a queue."""


class ProgressTold:
    """Tells `progress(done, total)`: a byte of log counts in part once it was scanned, and whole once all of it is."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._scanned, self._written, self._work = 0, 0, 0

    def scanned(self, task: ScanTask) -> None:
        """A range was scanned; one that has to be scanned again counts once."""
        self._scanned = min(self._scanned + task.range.stop - task.range.start, self._total)
        self._tell()

    def begin_writing(self, tasks: Sequence[WriteTask]) -> None:
        """These are the tasks of the second stage."""
        self._scanned, self._work = self._total, sum(map(_weight, tasks))

    def written(self, task: WriteTask) -> None:
        """A task of the second stage ended."""
        self._written += _weight(task)
        self._tell()

    def end(self) -> None:
        """All is done."""
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _tell(self) -> None:
        if self._progress is not None and self._total:
            writing = self._written / self._work if self._work else 0.0
            share = self._scanned / self._total * (1 - WRITING_SHARE) + writing * WRITING_SHARE
            self._progress(int(self._total * share), self._total)


def _weight(task: WriteTask) -> int:
    if isinstance(task, IndexWriteTask):
        return max(task.plan.count * _ENTRY, 1)
    assert isinstance(task, QueueWriteTask)
    return max(sum(one.end - one.base_unit for one in task.files), 1)
