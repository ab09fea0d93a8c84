"""Flush stdout at the end of a process, so that a closed pipe does not change the exit code."""

from __future__ import annotations

import os
import sys

from rocketflow.process.printable import printable

EXIT_NOT_WRITTEN = 1


def finished(code: int) -> int:
    """Flush stdout and return the exit code; Python's own flush at exit would turn a failure into 120.

    A reader that has closed the pipe, as `| head` does, does not change `code`. If stdout cannot be written (disk
    full), code 0 becomes 1.
    """
    if sys.stdout is None:  # it was closed before the process started
        return code
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop()
    except OSError as error:
        drop()
        print(f"error: standard output: {printable(error.strerror or str(error))}", file=sys.stderr)
        return code or EXIT_NOT_WRITTEN
    return code


def drop() -> None:
    """Discard unflushed and future output."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
