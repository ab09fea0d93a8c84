"""PySpark's daemon of Python workers, without a traceback for each worker that the JVM hung up on.

The JVM closes its end of a worker's socket when a query ends or stops. PySpark's worker then prints the BrokenPipeError
of its next write, although the JVM asked for it. Spark starts this module instead of `pyspark.daemon`
(`spark.python.daemon.module`); everything else is PySpark's.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING, Any

from pyspark import daemon

if TYPE_CHECKING:
    from socket import socket

_serve = daemon.worker


def _worker(sock: socket, authenticated: bool) -> int:
    """Serve one connection as PySpark does; a JVM that hung up ends it."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


daemon.worker = _worker


def _jvm_hung_up() -> bool:
    """Return whether the error that is handled now is that of a JVM that closed its end."""
    return isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError))


class _QuietTraceback:
    """What the daemon prints errors of its forked workers with."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the error that is handled, but none of a JVM that hung up."""
        if not _jvm_hung_up():
            traceback.print_exc()


def _print(*words: object, **how: Any) -> None:
    """Print as `print` does, but nothing about a JVM that hung up: a worker's last flush comes too late for it."""
    if not _jvm_hung_up():
        print(*words, **how)


def quiet_main_daemon() -> None:
    """Do the same in a worker of PySpark's own daemon.

    Spark starts that one, whatever the setting says, for the workers that plan reads and commit writes.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") == daemon.__name__:
        vars(main).update(traceback=_QuietTraceback, print=_print)


vars(daemon).update(traceback=_QuietTraceback, print=_print)

if __name__ == "__main__":
    daemon.manager()
