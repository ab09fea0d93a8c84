"""Comparison of printed JSON with its description in the reference (`rocketflow explain`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from rocketflow.cli.reference.entries import output_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_BY_NAME: Final = frozenset(
    {
        "config",
        "facts",
        "figures",
        "malformedBy",
        "packages",
        "processQueue",
        "progress",
        "properties",
        "quarantinedBy",
        "rates",
        "result",
        "skipped",
        "to",
    }
)
"""Fields whose objects have keys that are names of users, of messages or of other software."""


def keys(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each key in a JSON value; keys that are names of topics or queues become `*`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in _BY_NAME:
                yield f"{path}.{key}"
            elif re.fullmatch(r"[a-z][A-Za-z]*", key):
                yield f"{path}.{key}"
                yield from keys(inner, f"{path}.{key}")
            else:
                yield from keys(inner, f"{path}.*")
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner, path)


def check_fields(command: str, *printed: dict[str, Any], absent: Collection[str] = ()) -> None:
    """Check that the variants printed by a command have exactly the fields that the reference describes for it.

    `absent` are those that this run has no reason to print.
    """
    found = {one[1:] for variant in printed for one in keys(variant)}
    described = set(output_fields()[command])
    assert found - described == set(), f"{command} prints fields that FIELDS does not describe"
    assert described - found == set(absent), (
        f"FIELDS describes fields that {command} does not print: {described - found}"
    )
