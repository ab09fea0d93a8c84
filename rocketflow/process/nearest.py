"""The hint in an error about an unknown name: the known name that was probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTED = 20


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name` (ignoring case), None if none is similar."""
    by_lower = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?", or the known names if none is similar."""
    names = sorted(known)
    nearest = nearest_name(name, names)
    if nearest:
        return f"did you mean {nearest}?"
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    return f"there is {listed}" if names else "there is none"
