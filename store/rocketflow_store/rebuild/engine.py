"""Who runs the tasks of a rebuild: processes of this machine here, a Spark cluster in `rocketflow.spark`."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Protocol, TypeVar

from rocketflow_store.files.remote import any_opened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

Task = TypeVar("Task")
Report = TypeVar("Report")


class Engine(Protocol):
    """Runs functions of one argument, all of this package, on whatever it has."""

    name: str
    workers: int

    def run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], what: str, done: Callable[[Task], None]
    ) -> list[Report]:
        """The reports of all tasks, in their order; `done` is called as they end. `what` is for people."""
        ...


class LocalEngine:
    """As many processes as there are `workers`; one worker is this process itself."""

    name = "local"

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.workers > 1:
            # where nothing else runs in this process a copy of it begins at once; else a new one has to load everything
            kind = "fork" if threading.active_count() == 1 and not any_opened() else "spawn"
            self._pool = ProcessPoolExecutor(self.workers, multiprocessing.get_context(kind), _begin)
            for one in [self._pool.submit(_ready) for _ in range(self.workers)]:
                one.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(
        self, function: Callable[[Task], Report], tasks: Sequence[Task], what: str, done: Callable[[Task], None]
    ) -> list[Report]:
        """As `Engine.run`."""
        if self._pool is None:
            reports = []
            for task in tasks:
                reports.append(function(task))
                done(task)
            return reports
        futures = {self._pool.submit(function, task): task for task in tasks}
        left = set(futures)
        try:
            while left:
                ended, left = wait(left, return_when=FIRST_COMPLETED)
                for one in ended:
                    one.result()
                    done(futures[one])
        except BaseException:  # nobody may go on writing while what was made is swept
            self._pool.shutdown(cancel_futures=True)
            raise
        return [one.result() for one in futures]


def _ready() -> None:
    """A worker that answers this has begun."""


def _begin() -> None:
    """Be a worker: one whose parent was killed would wait for tasks for ever.

    A fork has its parent's ways of taking signals, too: what ends this process must not become an error of a task, and
    an interrupt is the parent's affair.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
