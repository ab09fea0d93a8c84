"""PySpark's daemon of Python workers, without a traceback for each worker whose connection the JVM closed.

The JVM closes its end of a worker's socket when a query ends or stops. PySpark's worker then prints the BrokenPipeError
of its next write, although the JVM closed the socket on purpose. Spark starts this module instead of `pyspark.daemon`
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
    """Serve one connection as PySpark does; return 1 if the JVM closed it."""
    try:
        return _serve(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1


daemon.worker = _worker


def _jvm_closed_socket() -> bool:
    """Return True if the exception being handled is that of a socket that the JVM closed."""
    return isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError))


class _QuietTraceback:
    """The daemon's `traceback` module, which prints the errors of its forked workers."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        """Print the exception being handled, unless the JVM closed the socket."""
        if not _jvm_closed_socket():
            traceback.print_exc()


def _print(*words: object, **how: Any) -> None:
    """Print as `print` does, unless the JVM closed the socket: a worker's last flush comes too late for it."""
    if not _jvm_closed_socket():
        print(*words, **how)


def quiet_main_daemon() -> None:
    """Suppress the same tracebacks in a worker of PySpark's own daemon.

    Spark starts that daemon, whatever the setting is, for the workers that plan reads and commit writes.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", "") == daemon.__name__:
        vars(main).update(traceback=_QuietTraceback, print=_print)


vars(daemon).update(traceback=_QuietTraceback, print=_print)

if __name__ == "__main__":
    daemon.manager()
