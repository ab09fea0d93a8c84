"""A `rocketflow` command run by a task: its stderr goes to the task's log line by line, its result is returned."""

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
"""Seconds before SIGKILL; a command may take ten of them to stop cleanly."""
_POLL_S: Final = 0.05
_LAST_LINES: Final = 5
_TIED: Final = Path(__file__).parents[1] / "process" / "tied_process.py"


class RunningCommand:
    """A running command in a process group of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command = tuple(command)
        self._stopping = threading.RLock()  # a second signal can arrive while the first one is handled
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
        """The id of the command's process and of its process group."""
        return self._process.pid

    def wait(self, on_line: Callable[[str], None]) -> CommandEnd:
        """Wait until the command ends; pass every line of stderr to `on_line` as it arrives.

        If the wait is interrupted by an exception, the command is stopped.
        """
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        out, error = self._process.stdout, self._process.stderr
        assert out is not None
        assert error is not None
        reader = threading.Thread(target=_read_lines, args=(error, on_line, last_lines), daemon=True)
        reader.start()
        try:
            lines = out.read().split("\n")  # not splitlines(): JSON may contain other line separators
            code = self._process.wait()
        except BaseException:
            self.stop()
            raise
        finally:
            reader.join(STOP_S)
            out.close()
            if not reader.is_alive():  # a process that left the group may still hold the other end
                error.close()
        return CommandEnd(self.command, code, json_result(lines), _error_line(last_lines))

    def stop(self) -> None:
        """Send SIGTERM to the process group, and SIGKILL to its remaining processes after `STOP_S`."""
        with self._stopping:
            deadline = time.monotonic() + STOP_S
            self._signal(signal.SIGTERM)
            while self._group_exists() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
            self._signal(signal.SIGKILL)

    def _group_exists(self) -> bool:
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
    """Return the environment `own` without Airflow's variables (secrets, module paths), updated by `more`."""
    hidden = ("AIRFLOW", "_AIRFLOW", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {name: value for name, value in own.items() if not name.startswith(hidden)} | dict(more)


def _read_lines(stream: IO[str], on_line: Callable[[str], None], last_lines: deque[str]) -> None:
    for line in stream:
        text = line.rstrip()
        if text:
            last_lines.append(text)
            on_line(text)


def _error_line(last_lines: Sequence[str]) -> str:
    """Return the command's last `error: ...` line, or its last line if there is none."""
    for line in reversed(last_lines):
        if line.startswith("error: "):
            return line
    return last_lines[-1] if last_lines else ""
