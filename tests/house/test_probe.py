"""Tests look into a store through `rocketflow_store.testing.Probe`, whose names are few."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from rocketflow_store.testing import Probe

TESTS: Final = Path(__file__).parents[1]
STORES: Final = {"store", "opened", "reader", "writer"}
STILL_PRIVATE: Final = {"tests/store/append/test_puts_together.py"}
"""Puts other functions in the place of the write path's own."""


def private_uses(path: Path) -> list[str]:
    """Return the places where a test takes a private attribute of a store."""
    return [
        f"{path.name}:{node.lineno} {node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in STORES
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
    ]


def test_probe_has_few_names() -> None:
    names = [name for name in vars(Probe) if not name.startswith("_")]
    assert len(names) <= 30, names


def test_no_test_takes_private_attributes_of_a_store() -> None:
    paths = [one for one in TESTS.rglob("*.py") if str(one.relative_to(TESTS.parent)) not in STILL_PRIVATE]
    assert [use for path in paths for use in private_uses(path)] == []
