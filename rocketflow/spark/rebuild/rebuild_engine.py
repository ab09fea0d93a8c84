"""The tasks of a rebuild on Spark: a few in each of Spark's tasks, in two jobs that say what they do.

The store has to be where the executors see it too, under the same path: a directory that all of them share.
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
"""A task of Spark's costs 15 ms beside its work: it does several of ours, so few that progress is seen."""
_LOOK_S: Final = 0.25
"""How often somebody looks how far a job is."""


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
        """As `Engine.run`, in one job; the reports come in the order of the tasks, `done` as Spark counts them ended.

        Which of them ended it does not tell: the first ones are taken for it.
        """
        if not tasks:
            return []
        shares = deal(tasks, self.workers)
        through = [0, *accumulate(len(one) for one in shares)]
        job = _Job(self._context, function, shares, f"rocketflow rebuild: {what}")
        told = 0
        try:
            while not job.ended(_LOOK_S):
                for task in tasks[told : (ended := max(through[min(job.shares_ended(), len(shares))], told))]:
                    done(task)
                told = ended
        except BaseException:  # nobody may go on writing while what was made is swept
            job.cancel()
            raise
        reports: list[Report] = job.reports()
        for task in tasks[told:]:
            done(task)
        return reports


def deal(tasks: Sequence[Task], workers: int) -> list[Sequence[Task]]:
    """The tasks in shares of their order, smaller ones at the end: nobody waits for the last one for long."""
    shares: list[Sequence[Task]] = []
    at = 0
    while at < len(tasks):
        size = min(-(-(len(tasks) - at) // (2 * workers)), _MOST_A_SHARE)
        shares.append(tasks[at : at + size])
        at += size
    return shares


class _Job(Generic[Task, Report]):
    """One job, in a thread of its own: so that somebody can look how far it is."""

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
            except BaseException as error:  # raised where the reports are asked for
                self._error = error

        self._thread = InheritableThread(target=collect, name="rebuild-job", daemon=True)
        self._thread.start()

    def ended(self, wait_s: float) -> bool:
        """Whether it is over, asked for so long."""
        self._thread.join(wait_s)
        return not self._thread.is_alive()

    def shares_ended(self) -> int:
        """How many of its shares are through."""
        tracker = self._context.statusTracker()
        ended = 0
        for job_id in tracker.getJobIdsForGroup(self._group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job is not None else ():
                stage = tracker.getStageInfo(stage_id)
                ended += stage.numCompletedTasks if stage is not None else 0
        return ended

    def cancel(self) -> None:
        """End it, and wait until it has."""
        with suppress(Exception):  # the JVM may be gone
            self._context.cancelJobGroup(self._group)
        self._thread.join()

    def reports(self) -> list[Report]:
        """What the tasks answered; the error of one that failed."""
        if self._error is not None:
            raise self._error
        assert self._reports is not None
        return self._reports


def _load(number: int) -> int:
    """Have everything that a task needs: what comes behind is no more than the work."""
    import_module("rocketflow_store.spi.rebuild")
    freeze_heap_once()
    return number


def _run_there(function: Callable[[Task], Report], share: Sequence[Task]) -> list[Report]:
    freeze_heap_once()
    with shared_paths():
        return [function(task) for task in share]
