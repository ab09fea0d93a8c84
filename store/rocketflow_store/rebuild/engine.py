"""Engines that run the tasks of a rebuild: local processes here, a Spark cluster in `rocketflow.spark`."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rocketflow_store.files.remote import any_opened
from rocketflow_store.rebuild.worker_process import WorkerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

Task = TypeVar("Task")
Report = TypeVar("Report")


class Engine(Protocol):
    """Runs functions of one argument, all of this package, in parallel."""

    name: str
    workers: int

    def run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], what: str, done: Callable[[Task], None]
    ) -> list[Report]:
        """Return the reports of all tasks, in their order; call `done` as each one ends. `what` describes the work."""
        ...


class LocalEngine:
    """Runs tasks in `workers` local processes; a single worker is this process itself."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._processes: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        if self.workers > 1:
            # without other threads the process is forked, which is immediate; spawned processes import everything
            kind = "fork" if threading.active_count() == 1 and not any_opened() else "spawn"
            try:
                for _ in range(self.workers):
                    self._processes.append(WorkerProcess(kind))
                for one in self._processes:
                    one.answer()
            except BaseException:
                self._kill()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            while self._processes:
                self._processes.pop().end()
        self._kill()

    def run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], what: str, done: Callable[[Task], None]
    ) -> list[Report]:
        """Run tasks like `Engine.run`; raise WorkerLostError if a process ends in the middle of a task."""
        if not self._processes:
            reports = []
            for task in tasks:
                reports.append(function(task))
                done(task)
            return reports
        try:
            return self._run(function, tasks, done)
        except BaseException:  # no task may write while the side directory is removed
            self._kill()
            raise

    def _run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], done: Callable[[Task], None]
    ) -> list[Report]:
        found: dict[int, Report] = {}
        waiting = iter(enumerate(tasks))
        busy: dict[Any, tuple[WorkerProcess, int]] = {}
        idle = list(self._processes)
        while idle or busy:
            while idle and (following := next(waiting, None)) is not None:
                worker, (number, task) = idle.pop(), following
                worker.ask(function, task)
                busy[worker.pipe] = worker, number
            idle.clear()
            for pipe in wait(busy) if busy else ():
                worker, number = busy.pop(pipe)
                found[number] = worker.answer()
                done(tasks[number])
                idle.append(worker)
        return [found[number] for number in range(len(tasks))]

    def _kill(self) -> None:
        for one in self._processes:
            one.kill()
        self._processes.clear()
