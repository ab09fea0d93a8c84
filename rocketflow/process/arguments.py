"""Command lines of jobs: the parser, and options of the form key=value."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class JobParser(argparse.ArgumentParser):
    """A parser that ends on an invalid command line with one error line and exit code 2, like every command."""

    def error(self, message: str) -> NoReturn:
        """Print `error: MESSAGE` and exit with code 2."""
        print(f"error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def key_value(where: str, text: str) -> tuple[str, str]:
    """Split `text` at its first `=`; UsageError names `where` it was given, but not `text`, which may be secret."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise UsageError(f"{where}: give it as key=value")
    return key, value


def key_values(option: str, given: Iterable[str]) -> dict[str, str]:
    """Parse the values of a repeatable option; for a repeated key the last value is used."""
    return dict(key_value(f"{option} {one!r}", one) for one in given)
