"""A process that is waited for, and that does not outlive this one where it is asked to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocketflow.process.stop_signals import stop_waits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_STOP_S: Final = 7.0
"""A stop has ten seconds, and this process wants some of them."""
_POLL_S: Final = 0.02
_TIED: Final = Path(__file__).with_name("tied_process.py")


def run_child(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; what it says is kept with `capture`.

    It gets a process group of its own, so that a terminal's Ctrl-C goes to this process alone. Whatever ends the wait
    ends the whole group: every process of it gets SIGTERM, and SIGKILL after seven seconds. If this process is killed,
    the kernel sends SIGTERM to the command (`tied_process`).
    """
    pipe = subprocess.PIPE if capture else None
    child: subprocess.Popen[str] | None = None
    try:
        with stop_waits():  # a child that nobody knows of could not be stopped
            child = subprocess.Popen(
                [sys.executable, "-I", str(_TIED), str(os.getpid()), *command],
                stdout=pipe,
                stderr=pipe,
                text=True,
                env=environment,
                start_new_session=True,
            )
        out, error = child.communicate()
    except BaseException:
        if child is not None:
            _stop_group(child)
        raise
    return subprocess.CompletedProcess(command, child.returncode, out, error)


def _stop_group(child: subprocess.Popen[str]) -> None:
    """Ask the child to stop, and see to it that nothing of its group is left."""
    deadline = time.monotonic() + _STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=_STOP_S)  # what it says has to go somewhere
    _wait_until_gone(child, deadline)
    if _is_there(child):
        print(f"error: process {child.pid} did not end within {_STOP_S:.0f} s: it was killed", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        _wait_until_gone(child, deadline + 1)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _wait_until_gone(child: subprocess.Popen[str], deadline: float) -> None:
    while _is_there(child) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _is_there(child: subprocess.Popen[str]) -> bool:
    """Whether the child or a process of its group lives; the child is collected when it ended."""
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
