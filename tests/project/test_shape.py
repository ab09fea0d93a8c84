"""The shape of the product: few levels of imports in the store, no cycle of modules, no loose module but the doors."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grimp
import pytest

import rocketflow
import rocketflow_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STORE: Final = Path(rocketflow_store.__file__).parent
MOST_LEVELS: Final = 15
LOOSE: Final = {
    "rocketflow_store": {"__init__", "testing"},
    "rocketflow": {"__init__", "__main__", "environment", "errors", "servers", "store_writes"},
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Return the imports of all modules, those of types and those inside functions too."""
    return grimp.build_graph("rocketflow_store", "rocketflow", cache_dir=None, exclude_type_checking_imports=False)


def package(module: str) -> str:
    """Return the package, or package in a package, that a module of the store is in."""
    parts = module.split(".")
    deepest = 3
    while deepest > 1 and not STORE.parent.joinpath(*parts[:deepest]).is_dir():
        deepest -= 1
    return ".".join(parts[:deepest])


def cycle(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the modules of a cycle, each imported by the next one; none if there is no cycle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_modules_form_no_cycle_by_imports_at_the_top_of_types_or_inside_functions(graph: grimp.ImportGraph) -> None:
    assert cycle({one: graph.find_modules_directly_imported_by(one) for one in graph.modules}) == []


def test_levels_of_imports(graph: grimp.ImportGraph) -> None:
    below: dict[str, set[str]] = defaultdict(set)
    modules = [one for one in graph.modules if one.split(".")[0] == "rocketflow_store"]
    for module in modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if package(module) != package(imported):
                below[package(module)].add(package(imported))

    on_the_way: list[str] = []

    @cache
    def level(name: str) -> int:
        assert name not in on_the_way, f"a cycle: {[*on_the_way, name]}"
        on_the_way.append(name)
        found = 1 + max((level(one) for one in below[name]), default=0)
        on_the_way.pop()
        return found

    levels = {package(module): level(package(module)) for module in modules}
    assert max(levels.values()) <= MOST_LEVELS, sorted(levels.items(), key=lambda one: one[1])


def test_loose_modules_are_doors() -> None:
    for door in (rocketflow_store, rocketflow):
        assert door.__file__ is not None
        found = {one.stem for one in Path(door.__file__).parent.glob("*.py")}
        assert found == LOOSE[door.__name__]
