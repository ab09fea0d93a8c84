"""Where a job's errors and progress go when spark-submit runs it: that joins stderr of its Python process to stdout."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Mapping

_VARIABLE = "ROCKETFLOW_STDERR"


def with_stderr(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, telling a job where this process's stderr is; not where the system cannot name it."""
    place = f"/proc/{os.getpid()}/fd/2"
    for fd in (1, 2):
        _append_only(fd)
    return {**environment, _VARIABLE: place} if os.path.exists(place) else dict(environment)


def is_submitted() -> bool:
    """Whether `rocketflow submit` started this job."""
    return _VARIABLE in os.environ


def _append_only(fd: int) -> None:
    """Make every write to a regular file go to its end: the job opens the file anew and has a position of its own."""
    with contextlib.suppress(OSError):  # closed by the caller
        if stat.S_ISREG(os.fstat(fd).st_mode):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)


def own_stderr() -> None:
    """Have stderr where whoever submitted this job has it, if it was joined to stdout."""
    place = os.environ.get(_VARIABLE)
    if place is None:
        return
    with contextlib.suppress(OSError):  # a socket cannot be opened by its name: then both stay one
        out, error = os.fstat(1), os.fstat(2)
        if (out.st_dev, out.st_ino) == (error.st_dev, error.st_ino):
            fd = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.dup2(fd, 2)
            finally:
                os.close(fd)
