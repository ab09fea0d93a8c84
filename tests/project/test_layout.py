"""The layout of the tests: folders mirror the packages that they test, and shared helpers are in `tests/support`."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

from tests.project.parsed_code import nodes

TESTS: Final = Path(__file__).parents[1]
MIRRORS: Final = {"store": TESTS.parent / "store/rocketflow_store", "rocketflow": TESTS.parent / "rocketflow"}
MODULES: Final = sorted(path for path in TESTS.rglob("*.py") if "golden" not in path.parts)


def test_folders_have_the_names_of_packages() -> None:
    for folder, packages in MIRRORS.items():
        wanted = {
            str(path.parent.relative_to(TESTS / folder)) for path in MODULES if path.is_relative_to(TESTS / folder)
        }
        strange = [name for name in wanted - {"airflow/dags"} if not (packages / name).is_dir()]
        assert strange == [], folder


def test_every_folder_is_a_package() -> None:
    """Without `__init__.py` pytest puts the folder itself on the path, where its name hides a library's."""
    folders = {path.parent for path in MODULES if path.parent.name != "dags"}
    assert [str(one) for one in folders if not (one / "__init__.py").exists()] == []


def test_modules_used_by_several_folders_are_in_support() -> None:
    strange = []
    for path in MODULES:
        for node in nodes(path.read_text("utf-8")):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("tests."):
                continue
            for name in node.names:
                place = TESTS.parent.joinpath(*str(node.module).split("."))
                folder = place if (place / f"{name.name}.py").exists() else place.parent
                if folder not in (path.parent, TESTS / "support"):
                    strange.append(f"{path.relative_to(TESTS)}:{node.lineno} imports {node.module}")
    assert strange == []
