"""Keep a submitted job's stderr separate: spark-submit redirects stderr of the job's Python process to stdout."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Mapping

_VARIABLE = "ROCKETFLOW_STDERR"


def with_stderr(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with the path of this process's stderr for the job, if the system has /proc."""
    place = f"/proc/{os.getpid()}/fd/2"
    for fd in (1, 2):
        _append_only(fd)
    return {**environment, _VARIABLE: place} if os.path.exists(place) else dict(environment)


def is_submitted() -> bool:
    """Return True if `rocketflow submit` started this job."""
    return _VARIABLE in os.environ


def _append_only(fd: int) -> None:
    """Append every write to a regular file: the job opens the file separately and has its own position in it."""
    with contextlib.suppress(OSError):  # closed by the caller
        if stat.S_ISREG(os.fstat(fd).st_mode):
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)


def own_stderr() -> None:
    """Redirect stderr to that of the process that submitted this job, if it was joined to stdout."""
    place = os.environ.get(_VARIABLE)
    if place is None:
        return
    with contextlib.suppress(OSError):  # a socket cannot be opened by path: then they stay joined
        out, error = os.fstat(1), os.fstat(2)
        if (out.st_dev, out.st_ino) == (error.st_dev, error.st_ino):
            fd = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                os.dup2(fd, 2)
            finally:
                os.close(fd)
