"""Options of commands and jobs that are given as key=value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


def key_value(where: str, text: str) -> tuple[str, str]:
    """Both sides of `text`; UsageError names `where` it was given and, where it has no key, nothing else of it."""
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        raise UsageError(f"{where}: give it as key=value")
    return key, value


def key_values(option: str, given: Iterable[str]) -> dict[str, str]:
    """What an option that may be repeated was given; of a key that comes twice the later value counts."""
    return dict(key_value(f"{option} {one!r}", one) for one in given)
