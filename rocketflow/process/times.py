"""Parse and format times of users: ISO 8601 or milliseconds since 1970 as input, ISO 8601 in UTC as output."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

TIME_FORM: Final = "milliseconds since 1970, or ISO 8601 such as 2026-01-31T12:30:00 (UTC without a zone)"
_MILLISECONDS: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_MIN_LONG, _MAX_LONG = -(1 << 63), (1 << 63) - 1


def parse_time(text: str) -> int:
    """Parse a time and return ms since 1970. Digits alone are milliseconds.

    Raises:
        ValueError: It is not a valid time; the message names the allowed forms.
    """
    given = text.strip()
    if _MILLISECONDS.fullmatch(given):
        if _MIN_LONG <= int(given) <= _MAX_LONG:
            return int(given)
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
