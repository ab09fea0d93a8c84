"""Run a child process that does not outlive this process."""

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
    from collections.abc import Callable, Mapping, Sequence

_STOP_S: Final = 7.0
"""Seconds before SIGKILL: a stop may take ten seconds, and this process needs some of them."""
_POLL_S: Final = 0.02
_TIED: Final = Path(__file__).with_name("tied_process.py")


def run_child(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; with `capture` its stdout and stderr are returned.

    The command gets its own process group, so that a terminal's Ctrl-C reaches only this process. If the wait is
    interrupted, every process of the group gets SIGTERM, and SIGKILL after seven seconds. If this process is killed,
    the kernel sends SIGTERM to the command (`tied_process`).
    """
    pipe = subprocess.PIPE if capture else None
    child: subprocess.Popen[str] | None = None
    try:
        with stop_waits():  # a stop before `child` is assigned could not stop the child
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


def kill_at_line(command: Sequence[str], is_enough: Callable[[str], bool]) -> bool:
    """Run a command until `is_enough` returns True for a line of its output, and kill its process group then.

    Return False if the command ends before. An interrupted wait kills the group too.
    """
    with stop_waits():
        child = subprocess.Popen(
            [sys.executable, "-I", str(_TIED), str(os.getpid()), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    assert child.stdout is not None
    try:
        return any(is_enough(line) for line in child.stdout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


def _stop_group(child: subprocess.Popen[str]) -> None:
    """Stop the child, and kill all remaining processes of its group."""
    deadline = time.monotonic() + _STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=_STOP_S)  # keeps its pipes drained
    _wait_for_end(child, deadline)
    if _group_exists(child):
        print(f"error: process {child.pid} did not end within {_STOP_S:.0f} s and was killed", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        _wait_for_end(child, deadline + 1)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _wait_for_end(child: subprocess.Popen[str], deadline: float) -> None:
    while _group_exists(child) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _group_exists(child: subprocess.Popen[str]) -> bool:
    """Return True if the child or a process of its group lives; reap the child if it has ended."""
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
