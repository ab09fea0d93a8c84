"""A `rocketflow` command as a task runs it: what it says goes to the task's log line by line, its result comes back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from rocketflow.airflow.outcome import CommandEnd, json_result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STOP_S: Final = 12.0
"""A command has ten seconds to stop in order."""
_POLL_S: Final = 0.05
_LAST_LINES: Final = 5
_TIED: Final = Path(__file__).parents[1] / "process" / "tied_process.py"


class RunningCommand:
    """One command in a process group of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command = tuple(command)
        self._stopping = threading.RLock()  # a second signal comes while the first one is obeyed
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(_TIED), str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environment),
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The command's process, and its process group."""
        return self._process.pid

    def wait(self, tell: Callable[[str], None]) -> CommandEnd:
        """Until it ended; `tell` gets every line of stderr as it comes. Whatever ends the wait stops the command."""
        said: deque[str] = deque(maxlen=_LAST_LINES)
        out, error = self._process.stdout, self._process.stderr
        assert out is not None
        assert error is not None
        reader = threading.Thread(target=_read_lines, args=(error, tell, said), daemon=True)
        reader.start()
        try:
            lines = out.read().split("\n")  # and nowhere else: JSON may hold other line ends
            code = self._process.wait()
        except BaseException:
            self.stop()
            raise
        finally:
            reader.join(STOP_S)
            out.close()
            if not reader.is_alive():  # what left the group may still hold the other end
                error.close()
        return CommandEnd(self.command, code, json_result(lines), _error_line(said))

    def stop(self) -> None:
        """Ask the whole group to stop, and kill what of it is left after twelve seconds."""
        with self._stopping:
            deadline = time.monotonic() + STOP_S
            self._signal(signal.SIGTERM)
            while self._group_is_there() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            self._signal(signal.SIGKILL)

    def _group_is_there(self) -> bool:
        self._process.poll()
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def child_environment(own: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Airflow's environment without what is Airflow's (secrets, module path), and `more`."""
    hidden = ("AIRFLOW", "_AIRFLOW", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in own.items() if not name.startswith(hidden)} | dict(more)


def _read_lines(stream: IO[str], tell: Callable[[str], None], said: deque[str]) -> None:
    for line in stream:
        text = line.rstrip()
        if text:
            said.append(text)
            tell(text)


def _error_line(said: Sequence[str]) -> str:
    """The command's `error: ...` line if there is one, else the last thing that it said."""
    for line in reversed(said):
        if line.startswith("error: "):
            return line
    return said[-1] if said else ""
