"""Run a command that is asked to stop when the process that waits for it dies: `tied_process.py PARENT COMMAND...`.

A process that is killed (SIGKILL reaches no handler) would leave its child running, and that one the store's lock held.
Run as a file, without imports that cost time.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie_to(parent: int) -> None:
    """Have Linux send SIGTERM to this process when its parent dies; exit if `parent` is not the parent any more."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before
            sys.exit(128 + signal.SIGTERM)


def main(arguments: list[str]) -> None:
    """Become the command."""
    parent, command = int(arguments[0]), arguments[1:]
    tie_to(parent)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"error: {command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
