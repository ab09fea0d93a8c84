"""The broker's folders: few modules beside them, one door and one builder each, and one declaration of a request."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grimp
import pytest

from rocketflow.broker.operators import Listeners
from rocketflow.broker.parts import Parts
from rocketflow.cli.reference.request_page import NAME, request_page
from rocketflow.remoting.codes import UNSUPPORTED, RequestCode
from tests.project.parsed_code import nodes
from tests.support.processed_codes import BROKER, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROCKETFLOW: Final = Path(__file__).parents[2] / "rocketflow"
BROKER_FILES: Final = sorted((ROCKETFLOW / "broker").rglob("*.py"))
FOLDERS: Final = {path.name for path in (ROCKETFLOW / "broker").iterdir() if (path / "__init__.py").exists()}
MOST_MODULES, MOST_LINES_OF_SERVICE = 5, 200
MOST_ARGUMENTS, MOST_LINES_OF_CONSTRUCTOR = 7, 40
MOST_PLACES: Final = 2
"""Of a request code: the enumeration, and the folder that processes it."""


def test_few_modules_are_beside_the_folders() -> None:
    modules = {path.stem for path in (ROCKETFLOW / "broker").glob("*.py")} - {"__init__"}
    assert len(modules) <= MOST_MODULES, modules
    assert len((ROCKETFLOW / "broker/service.py").read_text("utf-8").splitlines()) <= MOST_LINES_OF_SERVICE


def constructors() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the constructors of the broker's classes, each with its place."""
    for path in BROKER_FILES:
        for node in nodes(path.read_text("utf-8")):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                yield f"{path.relative_to(ROCKETFLOW)}:{node.lineno}", node


def test_constructors_are_short_and_take_few_arguments() -> None:
    for place, one in constructors():
        named = one.args
        assert named.vararg is None or place.startswith("broker/parts.py"), place
        assert len([*named.posonlyargs, *named.args, *named.kwonlyargs]) - 1 <= MOST_ARGUMENTS, place
        assert (one.end_lineno or 0) - one.lineno < MOST_LINES_OF_CONSTRUCTOR, place


def test_no_call_packs_its_arguments_into_a_tuple() -> None:
    """A constructor with many arguments is not called shortly either: owners that belong together are one object."""
    for path in BROKER_FILES:
        for node in nodes(path.read_text("utf-8")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[:1].isupper():
                packed = [one for one in node.args if isinstance(one, ast.Starred) and isinstance(one.value, ast.Tuple)]
                assert packed == [], f"{path.relative_to(ROCKETFLOW)}:{node.lineno}"


def test_folders_are_used_through_their_doors() -> None:
    graph = grimp.build_graph("rocketflow", cache_dir=None, exclude_type_checking_imports=False)
    strange = []
    for module in graph.modules:
        own = module.split(".")[2] if module.startswith("rocketflow.broker.") else ""
        for imported in graph.find_modules_directly_imported_by(module):
            parts = imported.split(".")
            if parts[:2] == ["rocketflow", "broker"] and len(parts) > 3 and parts[2] in FOLDERS - {own}:
                strange.append(f"{module} imports {imported}")
    assert strange == []


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_each_folder_has_one_builder(folder: str) -> None:
    door = importlib.import_module(f"rocketflow.broker.{folder}")
    named = [getattr(door, name) for name in door.__all__]
    builders = [one for one in named if isinstance(one, type) and issubclass(one, Parts) and one is not Listeners]
    assert len(builders) == 1, builders


def test_a_request_code_is_named_in_two_places() -> None:
    """Its processor, its rights and the owner of its records are one declaration; reasons are beside the codes."""
    places: dict[str, set[str]] = {RequestCode(code).name: set() for code in BROKER}
    for folder in ("broker", "access", "remoting", "aio"):
        for path in (ROCKETFLOW / folder).rglob("*.py"):
            found = nodes(path.read_text("utf-8"))
            named = {one.attr for one in found if isinstance(one, ast.Attribute)}
            named |= {one.id for one in found if isinstance(one, ast.Name)}
            for name in named & places.keys():
                places[name].add(str(path.relative_to(ROCKETFLOW).parent))
    assert {name: found for name, found in places.items() if len({*found, "remoting"}) > MOST_PLACES} == {}


def test_a_request_is_processed_or_has_a_reason_and_the_page_names_both() -> None:
    assert ROWS.keys() & UNSUPPORTED.keys() == set()
    text = request_page()
    assert text == (ROCKETFLOW / "cli/reference" / NAME).read_text("utf-8")
    for code, row in ROWS.items():
        assert f"| {int(code)} | {RequestCode(code).name} |" in text
        assert all(one.text in text for one in row.needs)
    assert all(why in text for why in UNSUPPORTED.values())
