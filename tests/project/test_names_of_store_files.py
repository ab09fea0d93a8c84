"""Only the store's layout joins the names of its files to paths; code outside the store asks `StorePaths`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.project.parsed_code import nodes

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = frozenset(
    {
        "commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "abort", "lock", "checkpoint",
        "timerwheel", "timerlog", "timercheck", "store.meta", "store.meta.bak", "confirm", "quarantine", "staging",
        "rocksdbstore",
        "consumerOffset.json", "lmqConsumerOffset.json", "topics.json", "subscriptionGroup.json", "delayOffset.json",
    }
)  # fmt: skip
_JOINING: Final = frozenset({"join", "joinpath", "Path", "with_name", "below"})


def names_joined(source: str) -> list[tuple[int, str]]:
    """Return (line, name) of each name of a store's file in a `/`, a joining call, or a tuple of path parts."""
    found = []
    for node in nodes(source):
        parts: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            parts = [node.left, node.right]
        elif isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            parts = list(node.args) if called in _JOINING else []
        elif isinstance(node, ast.Tuple) and any(
            isinstance(one, ast.Constant) and one.value in ("config", "rocketflow") for one in node.elts
        ):
            parts = node.elts
        for one in parts:
            for value in ast.walk(one) if isinstance(one, ast.JoinedStr | ast.Constant) else ():
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found += [(node.lineno, part) for part in value.value.split("/") if part in NAMES]
    return found


@pytest.mark.parametrize("folder", ["rocketflow", "jobs"])
def test_only_the_layout_joins_names_of_a_stores_files(folder: str) -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}": name
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, name in names_joined(file.read_text("utf-8"))
        if (file.name, name) != ("demo.py", "checkpoint")  # a query's checkpoint, beside the demo's store
    }
    assert not found, "ask StorePaths where these are"


@pytest.mark.parametrize(
    "text",
    ['os.path.join(path, "abort")', 'root / "commitlog"', 'Path(f"{root}/commitlog")', 'x = ("config", "topics.json")'],
)
def test_a_joined_name_is_found(text: str) -> None:
    assert names_joined(text)
