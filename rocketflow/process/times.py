"""Parse and format times of users: ISO 8601 or milliseconds since 1970 as input, ISO 8601 in UTC as output."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from rocketflow.errors import RocketFlowError

TIME_FORM: Final = "milliseconds since 1970, or ISO 8601 such as 2026-01-31T12:30:00 (UTC without a zone)"
_MILLISECONDS: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_SECONDS: Final = range(10**9, 5 * 10**9)
"""2001 to 2128 in seconds; as milliseconds, a few weeks of 1970, when no message was stored."""
_MIN_LONG, _MAX_LONG = -(1 << 63), (1 << 63) - 1


class SecondsError(RocketFlowError, ValueError):
    """A number of milliseconds that was probably meant as seconds."""


def check_milliseconds(number: int) -> int:
    """Return a number of ms since 1970; raise SecondsError if it is probably one of seconds."""
    if number in _SECONDS:
        raise SecondsError(
            f"{number} is a time in milliseconds: {iso_time(number)}; if it is in seconds, give {number * 1000} "
            f"({iso_time(number * 1000)})"
        )
    return number


def parse_time(text: str) -> int:
    """Parse a time and return ms since 1970. Digits alone are milliseconds.

    Raises:
        ValueError: It is not a valid time; the message names the allowed forms. SecondsError if it seems to be seconds.
    """
    given = text.strip()
    if _MILLISECONDS.fullmatch(given):
        if _MIN_LONG <= int(given) <= _MAX_LONG:
            return check_milliseconds(int(given))
        raise ValueError(f"{text!r} is not a valid time: {TIME_FORM}")
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid time: {TIME_FORM}") from None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // _MS


def iso_time(ms: int) -> str:
    """Return ms since 1970 as 2026-01-31T12:30:00.000Z; the number itself if no calendar has that time."""
    try:
        return (_EPOCH + ms * _MS).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return str(ms)
