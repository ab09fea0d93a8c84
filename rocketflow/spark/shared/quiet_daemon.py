"""PySpark's daemon of Python workers, without a traceback for each worker that the JVM hung up on.

The JVM closes its end of a worker's socket when a query ends or stops. PySpark's worker then prints the BrokenPipeError
of its next write, although the JVM asked for it. Spark starts this module instead of `pyspark.daemon`
(`spark.python.daemon.module`); everything else is PySpark's.
"""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

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


class _QuietTraceback:
    """What the daemon prints errors of its forked workers with."""

    @staticmethod
    def print_exc() -> None:
        """Print the error that is handled, but none of a JVM that hung up."""
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ConnectionResetError)):
            traceback.print_exc()


daemon.traceback = _QuietTraceback  # type: ignore[assignment, attr-defined]

if __name__ == "__main__":
    daemon.manager()
