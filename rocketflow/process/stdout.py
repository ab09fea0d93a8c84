"""The end of stdout: a process ends with its own code, also where nobody reads what it printed any more."""

from __future__ import annotations

import os
import sys

from rocketflow.process.printable import printable

EXIT_NOT_WRITTEN = 1


def finished(code: int) -> int:
    """`code`, once everything that was printed is out; Python's own flush at the end would make 120 of a failure.

    A reader that went away, as `| head` does, is none. Where there is no room the code of a success becomes 1.
    """
    if sys.stdout is None:  # it was closed before we began
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
    """Let go what was printed and is printed from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
