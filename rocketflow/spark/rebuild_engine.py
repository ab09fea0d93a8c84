"""The tasks of a rebuild on Spark: one Spark task each, in two jobs that say what they do.

The store has to be where the executors see it too, under the same path: a directory that all of them share.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from rocketflow.errors import RocketFlowError
from rocketflow_store.errors import StoreAccessError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Report = TypeVar("Report")


class PathNotSharedError(RocketFlowError):
    """An executor does not see the store."""

    exit_code = 2


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
        """As `Engine.run`; the reports come in the order of the tasks, and `done` as they come."""
        if not tasks:
            return []
        context = self._context
        context.setJobDescription(f"rocketflow rebuild: {what}")
        try:
            reports: list[Report] = []
            for start in range(0, len(tasks), self._tasks_a_job):
                some = list(tasks[start : start + self._tasks_a_job])
                reports += context.parallelize(some, len(some)).map(partial(_run_there, function)).collect()
                for task in some:
                    done(task)
            return reports
        finally:
            context.setJobDescription(None)  # type: ignore[arg-type]

    @property
    def _tasks_a_job(self) -> int:
        """So many that nobody waits for the last of a job for long, and so few that progress is seen."""
        return self.workers * 16


def _load(number: int) -> int:
    """Have everything that a task needs: what comes behind is no more than the work."""
    for name in ("scan_task", "write_tasks"):
        import_module(f"rocketflow_store.rebuild.{name}")
    return number


def _run_there(function: Callable[[Task], Report], task: Task) -> Report:
    try:
        return function(task)
    except (StoreAccessError, FileNotFoundError) as error:
        import socket

        raise PathNotSharedError(
            f"{error}; on {socket.gethostname()}: every executor has to see the store under the path that the "
            "driver names; put it on a directory that all of them share"
        ) from error
