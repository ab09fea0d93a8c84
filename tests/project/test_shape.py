"""The packages of the store: few levels of imports, no cycle, no loose module but the doors."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Final

import grimp

import rocketflow
import rocketflow_store

STORE: Final = Path(rocketflow_store.__file__).parent
MOST_LEVELS: Final = 15
LOOSE: Final = {
    "rocketflow_store": {"__init__", "testing"},
    "rocketflow": {"__init__", "__main__", "environment", "errors", "servers", "store_writes"},
}


def package(module: str) -> str:
    """Return the package, or package in a package, that a module of the store is in."""
    parts = module.split(".")
    deepest = 3
    while deepest > 1 and not STORE.parent.joinpath(*parts[:deepest]).is_dir():
        deepest -= 1
    return ".".join(parts[:deepest])


def test_levels_of_imports() -> None:
    graph = grimp.build_graph("rocketflow_store", cache_dir=None, exclude_type_checking_imports=False)
    below: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
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

    levels = {package(module): level(package(module)) for module in graph.modules}
    assert max(levels.values()) <= MOST_LEVELS, sorted(levels.items(), key=lambda one: one[1])


def test_loose_modules_are_doors() -> None:
    for door in (rocketflow_store, rocketflow):
        assert door.__file__ is not None
        found = {one.stem for one in Path(door.__file__).parent.glob("*.py")}
        assert found == LOOSE[door.__name__]
