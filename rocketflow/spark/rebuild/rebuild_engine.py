"""The tasks of a rebuild on Spark: two Spark jobs, whose tasks run a few rebuild tasks each.

The store must be in a directory that all executors see under the same path.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rocketflow.spark.shared.shared_paths import shared_paths
from rocketflow.spark.shared.worker_heap import freeze_heap_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Report = TypeVar("Report")
_MOST_A_SHARE: Final = 4
"""Rebuild tasks in one Spark task. A Spark task costs 15 ms of its own; more would hide the progress."""
_LOOK_S: Final = 0.25
"""Time between two looks at the progress of a job."""


class SparkEngine:
    """Runs the tasks on the executors of a session, as `rocketflow_store.rebuild.engine.Engine`."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self.workers = max(self._context.defaultParallelism, 1)
        self.run(_load, range(self.workers), "load the executors' Python", lambda _: None)

    def run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], what: str, done: Callable[[Task], None]
    ) -> list[Report]:
        """Run the tasks in one Spark job, as `Engine.run`; return their reports in the order of the tasks.

        Spark reports how many shares have ended, not which: `done` is called for the first tasks, in order.
        """
        if not tasks:
            return []
        shares = deal(tasks, self.workers)
        through = [0, *accumulate(len(one) for one in shares)]
        job = _Job(self._context, function, shares, f"rocketflow rebuild: {what}")
        reported = 0
        try:
            while not job.ended(_LOOK_S):
                for task in tasks[reported : (ended := max(through[min(job.shares_ended(), len(shares))], reported))]:
                    done(task)
                reported = ended
        except BaseException:  # no task may still write when the caller deletes the output
            job.cancel()
            raise
        reports: list[Report] = job.reports()
        for task in tasks[reported:]:
            done(task)
        return reports


def deal(tasks: Sequence[Task], workers: int) -> list[Sequence[Task]]:
    """Divide the tasks into shares, in order; later shares are smaller, so that all workers end at about one time."""
    shares: list[Sequence[Task]] = []
    at = 0
    while at < len(tasks):
        size = min(-(-(len(tasks) - at) // (2 * workers)), _MOST_A_SHARE)
        shares.append(tasks[at : at + size])
        at += size
    return shares


class _Job(Generic[Task, Report]):
    """One Spark job in a thread of its own, so that the caller can read its progress."""

    def __init__(
        self, context: SparkContext, function: Callable[[Task], Report], shares: Sequence[Sequence[Task]], what: str
    ) -> None:
        from pyspark import InheritableThread

        self._context, self._group = context, f"rocketflow-rebuild-{uuid.uuid4().hex}"
        self._reports: list[Report] | None = None
        self._error: BaseException | None = None

        def collect() -> None:
            try:
                context.setJobGroup(self._group, what, interruptOnCancel=True)
                found = context.parallelize(shares, len(shares)).map(partial(_run_there, function)).collect()
                self._reports = list(chain.from_iterable(found))
            except BaseException as error:  # `reports` raises it
                self._error = error

        self._thread = InheritableThread(target=collect, name="rebuild-job", daemon=True)
        self._thread.start()

    def ended(self, wait_s: float) -> bool:
        """Wait up to `wait_s` seconds; return True if the job has ended."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def shares_ended(self) -> int:
        """Return how many shares Spark has completed."""
        tracker = self._context.statusTracker()
        ended = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                ended += stage.numCompletedTasks if stage is not None else 0
        return ended

    def cancel(self) -> None:
        """Cancel the job and wait for its end."""
        with suppress(Exception):  # the JVM may have ended
            self._context.cancelJobGroup(self._group)
        self._thread.join()

    def reports(self) -> list[Report]:
        """Return the reports of the tasks; raise the error of a failed job."""
        if self._error is not None:
            raise self._error
        assert self._reports is not None
        return self._reports


def _load(number: int) -> int:
    """Import all that a task needs, so that later tasks measure the work alone."""
    import_module("rocketflow_store.spi.rebuild")
    freeze_heap_once()
    return number


def _run_there(function: Callable[[Task], Report], share: Sequence[Task]) -> list[Report]:
    freeze_heap_once()
    with shared_paths():
        return [function(task) for task in share]
