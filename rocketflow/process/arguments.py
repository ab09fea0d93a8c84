"""Command lines of jobs: their parser, and options that are given as key=value."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class JobParser(argparse.ArgumentParser):
    """Ends a wrong command line with one line and exit code 2, as every command does."""

    def error(self, message: str) -> NoReturn:
        """`error: <what>`, and where to look."""
        print(f"error: {message} ({self.prog} --help tells more)", file=sys.stderr)
        raise SystemExit(2)


def key_value(where: str, text: str) -> tuple[str, str]:
    """Both sides of `text`; UsageError names `where` it was given and, where it has no key, nothing else of it."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise UsageError(f"{where}: give it as key=value")
    return key, value


def key_values(option: str, given: Iterable[str]) -> dict[str, str]:
    """What an option that may be repeated was given; of a key that comes twice the later value counts."""
    return dict(key_value(f"{option} {one!r}", one) for one in given)
