"""The hint for a tag expression that names one tag where several were probably meant."""

from __future__ import annotations

import re
from typing import Final

_OTHER_SEPARATORS: Final = re.compile(r"\s*(?:[,;|]|&&)\s*|\s+(?:or|and)\s+", re.IGNORECASE)
_QUOTES: Final = "'\"`"


def likely_tags(expression: str) -> str | None:
    """Return the expression that was probably meant, such as `a || b` for `a,b`; None for a plausible one.

    RocketMQ joins tags by `||` alone: all else is part of a tag's name.
    """
    given = [one.strip() for one in expression.split("||")]
    parts = [part.strip(_QUOTES) for one in given for part in _OTHER_SEPARATORS.split(one)]
    meant = [part for part in parts if part]
    return " || ".join(meant) if meant and meant != [one for one in given if one] else None
