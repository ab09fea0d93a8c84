"""Kinds of arguments that several commands take."""

from __future__ import annotations

import typer

from rocketflow.times import parse_time


def time_argument(given: str | int) -> int:
    """Return a time of the command line in ms since 1970; a default is one already."""
    if isinstance(given, int):
        return given
    try:
        return parse_time(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
