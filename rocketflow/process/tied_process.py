"""Run a command that gets SIGTERM when its parent dies: `tied_process.py PARENT COMMAND...`.

A process killed with SIGKILL, which no handler sees, would leave its child running and holding the store's lock. This
file is run as a script and imports nothing slow.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def tie_to(parent: int) -> None:
    """Make Linux send SIGTERM to this process when its parent dies; exit if `parent` has died already."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            sys.exit(128 + signal.SIGTERM)


def main(arguments: list[str]) -> None:
    """Tie this process to its parent and replace it by the command."""
    parent, command = int(arguments[0]), arguments[1:]
    tie_to(parent)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"error: {command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
