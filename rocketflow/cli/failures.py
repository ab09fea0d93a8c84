"""How a command ends when something is wrong: `error: <what> <where>: <what to do>` and an exit code."""

from __future__ import annotations

import sys

from rocketflow.errors import RocketFlowError
from rocketflow.stop_signals import StoppedError
from rocketflow_store.errors import StoreError

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_STOPPED = 128
"""Plus the signal's number, as a shell counts."""


def report(error: BaseException) -> int:
    """Print the error's line; its exit code."""
    if isinstance(error, (StoreError, RocketFlowError)):
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, StoppedError):
        print(f"error: {error}; nothing was left half done", file=sys.stderr)
        return EXIT_STOPPED + error.number
    if isinstance(error, KeyboardInterrupt):
        print("error: interrupted; nothing was left half done", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"error: {type(error).__name__}: {printable(str(error))} (run with --debug for details)", file=sys.stderr)
    return EXIT_FINDINGS


def printable(text: str) -> str:
    """The text with control characters escaped: it may come from a message."""
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)
