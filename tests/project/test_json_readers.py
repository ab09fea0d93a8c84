"""Input JSON is parsed by one reader with limits, and by no other code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.project.parsed_code import nodes

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("store/rocketflow_store", "rocketflow", "jobs", "airflow_dags")
READERS: Final = frozenset(
    {
        "store/rocketflow_store/files/json_text.py",
        "rocketflow/airflow/audit.py",  # Airflow's environment has the standard library alone
        "rocketflow/airflow/outcome.py",
    }
)
_PARSING: Final = frozenset({"load", "loads", "JSONDecoder", "raw_decode"})


def parsing_lines(source: str) -> list[int]:
    """Return the lines that parse JSON with the standard library."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "json" and node.attr in _PARSING:
                found.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and node.module in ("json", "json.decoder"):
            found += [node.lineno for one in node.names if one.name in _PARSING]
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_json_is_parsed_by_the_limited_reader_alone(folder: str) -> None:
    found = {
        f"{file.relative_to(ROOT)}:{line}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        if str(file.relative_to(ROOT)) not in READERS
        for line in parsing_lines(file.read_text("utf-8"))
    }
    assert not found, "use rocketflow_store.files.json_text.parse_json"


@pytest.mark.parametrize("text", ["json.loads(x)", "json.load(file)", "from json import loads", "json.JSONDecoder()"])
def test_parsing_by_the_standard_library_is_found(text: str) -> None:
    assert parsing_lines(text)


def test_readers_without_the_limited_one_catch_deep_json() -> None:
    for name in READERS - {"store/rocketflow_store/files/json_text.py"}:
        found = nodes((ROOT / name).read_text("utf-8"))
        for block in (one for one in found if isinstance(one, ast.Try)):
            if any(parsing_lines(ast.unparse(one)) for one in block.body):
                caught = " ".join(ast.unparse(one.type) for one in block.handlers if one.type is not None)
                assert "RecursionError" in caught, name
