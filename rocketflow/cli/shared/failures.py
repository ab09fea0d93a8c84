"""The end of a failed command: `error: <what> <where>: <what to do>` and an exit code."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING, Final

import typer

from rocketflow.errors import RocketFlowError
from rocketflow.process.printable import printable
from rocketflow.process.stdout import drop
from rocketflow.process.stop_signals import StoppedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXIT_FINDINGS = 1
EXIT_MISSING_PACKAGE = 2
EXIT_LOST = 3
EXIT_INTERRUPTED = 130
EXIT_STOPPED = 128
"""Base of the exit code of a command that a signal stopped: 128 plus its number, as in a shell."""

EXTRAS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("numpy", "pyarrow", "isal", "lz4", "zstandard"), "store"),
    **dict.fromkeys(("pyspark", "pandas"), "spark"),
    "msgspec": "client",
    **dict.fromkeys(("aiohttp", "prometheus_client", "yaml"), "broker"),
    "great_expectations": "quality",
}
"""The extra that installs an imported package."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("namesrv", "broker"), ("broker", "store", "client")),
    "demo": ("demo", "store", "spark"),
    "bridge": ("kafka", "store", "spark"),
    "quality": ("quality", "store", "spark"),
}
"""The extra with all packages of a command, and the extras that it brings."""


def extra_of(package: str, command: str) -> str:
    """Return the extra to install for an imported package: that with all packages of the command if it has this one."""
    wider = COMMANDS.get(command, ())
    return wider[0] if EXTRAS[package] in wider else EXTRAS[package]


def report(error: BaseException, command: str = "") -> int:
    """Print the line of an error that ended a command; return its exit code."""
    if isinstance(error, RocketFlowError):
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    package = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if package in EXTRAS:
        extra = extra_of(package, command)
        print(
            f"error: this command needs the package {package}: pip install 'rocketflow[{extra}]' "
            f"(in a checkout: '.[{extra}]')",
            file=sys.stderr,
        )
        return EXIT_MISSING_PACKAGE
    if isinstance(error, StoppedError):
        print(f"error: {error}; nothing was left half done", file=sys.stderr)
        return EXIT_STOPPED + error.number
    if isinstance(error, KeyboardInterrupt):
        print("error: interrupted; nothing was left half done", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"error: {type(error).__name__}: {printable(str(error))} (run with --debug for details)", file=sys.stderr)
    return EXIT_FINDINGS


@contextlib.contextmanager
def ends_at_interrupt(*, expected: bool) -> Iterator[None]:
    """Let Ctrl-C end a command without an error line if it is the `expected` end; its exit code stays."""
    try:
        yield
    except (StoppedError, KeyboardInterrupt) as error:
        number = error.number if isinstance(error, StoppedError) else signal.SIGINT
        if not expected or number != signal.SIGINT:
            raise
        sys.stdout.flush()
        raise typer.Exit(EXIT_INTERRUPTED) from None


@contextlib.contextmanager
def exits_with(code: int) -> Iterator[None]:
    """End the command with its exit code also if the reader of stdout has closed it."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop()
        raise typer.Exit(code) from None
