"""Local processes that run functions for the process that started them.

The caller waits on pipes alone and shares no lock with a thread. A stop that arrives as an exception at any moment
(from a signal) therefore leaves no lock held, which the standard library's pools cannot promise.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from typing import TYPE_CHECKING, Any

from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

_ENDS_IN_S = 5.0


class WorkerLostError(StoreError):
    """A worker process exited by itself, or was killed."""

    def __init__(self, pid: int | None, exit_code: int | None) -> None:
        how = f"exit code {exit_code}"
        if exit_code is not None and exit_code < 0:
            how = f"{signal.Signals(-exit_code).name}; out of memory?"
        super().__init__(
            f"worker process {pid} ended in the middle of its work ({how}); try again, or with fewer workers"
        )


class WorkerProcess:
    """One process that runs one function after another."""

    def __init__(self, kind: str) -> None:
        """Start the process: `kind` is "fork" or "spawn". Its first answer, None, means that it has started."""
        context: Any = multiprocessing.get_context(kind)
        self.pipe: Connection[Any, Any]
        self.pipe, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end,), daemon=True)
        self._process.start()
        other_end.close()

    def ask(self, function: Callable[[Any], Any], task: Any) -> None:
        """Make it call `function(task)`; it must be idle."""
        try:
            self.pipe.send((function, task))
        except OSError as error:
            raise self._lost() from error

    def answer(self) -> Any:
        """Return the result of the call or raise its error; raise WorkerLostError if the process ended."""
        try:
            fine, answer = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._lost() from error
        if fine:
            return answer
        raise answer

    def end(self) -> None:
        """Let an idle process exit."""
        try:
            self.pipe.send(None)
            self._process.join(_ENDS_IN_S)
        except OSError:  # it has exited
            pass
        self.kill()

    def kill(self) -> None:
        """Kill the process and wait for its end."""
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def _lost(self) -> WorkerLostError:
        self._process.join(_ENDS_IN_S)
        return WorkerLostError(self._process.pid, self._process.exitcode)


def _serve(pipe: Connection[Any, Any]) -> None:
    _begin()
    try:
        pipe.send((True, None))
        while (asked := pipe.recv()) is not None:
            pipe.send(_called(*asked))
    except (EOFError, BrokenPipeError):  # the parent closed the pipe
        return


def _called(function: Callable[[Any], Any], task: Any) -> tuple[bool, Any]:
    try:
        return True, function(task)
    except Exception as error:
        error.add_note(f"in worker process {os.getpid()}:\n{traceback.format_exc()}")
        return False, error


def _begin() -> None:
    """Prepare this process to be a worker, which exits when its parent is killed.

    A fork inherits its parent's signal handlers: a signal that ends this process must not become an error of a task,
    and an interrupt is handled by the parent.
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
