"""Tests use public names of the product only; they inspect an open store through `Probe`, which has few names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from rocketflow_store.testing import Probe
from tests.project.parsed_code import nodes

TESTS: Final = Path(__file__).parents[1]
PUBLIC: Final = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Names of named tuples and of `os` that only look private."""
PYSPARK: Final = {"_jvm", "_jsc", "_gateway", "_origin"}
"""PySpark's attributes for its JVM, which have no public names."""
BY_NAME: Final = {"setattr", "getattr", "hasattr", "delattr", "object", "patch", "attrgetter"}
"""Functions that take the name of an attribute: those of Python, of `monkeypatch` and of `unittest.mock.patch`."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC | PYSPARK


def private_uses(path: str, text: str) -> Iterator[str]:
    """Yield each use of a private name of another object: as an attribute, by its name or in an import."""
    for node in nodes(text):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and not (
            isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        ):
            names = [node.attr]
        elif isinstance(node, ast.Call) and called(node) in BY_NAME:
            texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            names = [text.rpartition(".")[2] for text in texts[:1]]
        elif isinstance(node, ast.ImportFrom):
            names = [one.name for one in node.names]
        yield from (f"{path}:{node.lineno} {name}" for name in names if is_private(name))


def called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def test_probe_has_few_names() -> None:
    names = [name for name in vars(Probe) if not name.startswith("_")]
    assert len(names) <= 30, names


def test_no_test_takes_private_names() -> None:
    found = [use for path in TESTS.rglob("*.py") for use in private_uses(str(path), path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("store._put", 1),
        ("Probe(store).put_lock._queue = 1", 1),
        ("super()._commit()", 1),
        ("monkeypatch.setattr(module, '_LIMIT', 1)", 1),
        ("monkeypatch.setattr('package.module._LIMIT', 1)", 1),
        ("patch.object(module, '_LIMIT', 1)", 1),
        ("from package.module import _helper", 1),
        ("self._own; cls._own; one.__class__; os._exit(1); pair._replace(a=1); spark._jvm", 0),
        ("monkeypatch.setattr(module, 'LIMIT', '_text')", 0),
    ],
)
def test_what_counts_as_private(text: str, count: int) -> None:
    assert len(list(private_uses("x", text))) == count
