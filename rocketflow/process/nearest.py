"""The hint in an error about an unknown name: the known name that was probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.spi.setting_rows import nearest_name

if TYPE_CHECKING:
    from collections.abc import Iterable

_LISTED = 20


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?", or the known names if none is similar."""
    names = sorted(known)
    nearest = nearest_name(name, names)
    if nearest:
        return f"did you mean {nearest}?"
    listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    return f"there is {listed}" if names else "there is none"
