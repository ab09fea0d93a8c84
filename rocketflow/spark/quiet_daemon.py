"""PySpark's daemon of Python workers, without a traceback for each worker that the JVM hung up on.

The JVM closes its end of a worker's socket when a query ends or stops. PySpark's worker then prints the BrokenPipeError
of its next write, although the JVM asked for it. Spark starts this module instead of `pyspark.daemon`
(`spark.python.daemon.module`); everything else is PySpark's.
"""

from __future__ import annotations

from contextlib import suppress
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

if __name__ == "__main__":
    with suppress(BrokenPipeError, ConnectionResetError):  # the JVM was killed
        daemon.manager()
