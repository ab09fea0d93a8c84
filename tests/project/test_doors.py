"""The store's two doors: code built on it imports `rocketflow_store` or `rocketflow_store.spi`, and no other module."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import rocketflow_store
from tests.project.parsed_code import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
SPI: Final = ROOT / "store" / "rocketflow_store" / "spi"
CALLERS: Final = ("rocketflow", "jobs", "airflow_dags")
MOST_NAMES: Final = 25
ON_THE_GROUND_FLOOR: Final = ("client", "remoting", "aio", "airflow", "errors.py", "environment.py")
GROUND_FLOOR: Final = tuple(f"rocketflow_store.spi.{one}" for one in ("messages", "ids", "names", "setting_rows"))
"""Doors that need the standard library alone."""
TABLE_ROWS: Final = "rocketflow_store.spi.table_rows"
"""The door that needs msgspec, as the wire does."""


def modules() -> list[str]:
    return sorted(one.stem for one in SPI.glob("*.py") if one.stem != "__init__")


def imports() -> Iterator[tuple[Path, str, str]]:
    """Yield (file, module of the store, name) of every import of the store, and of each use of a module's attribute."""
    for folder in CALLERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found = nodes(path.read_text("utf-8"))
            spi_modules = set()
            for node in found:
                if isinstance(node, ast.Import):
                    yield from ((path, one.name, "") for one in node.names if is_of_the_store(one.name))
                elif isinstance(node, ast.ImportFrom) and node.module and is_of_the_store(node.module):
                    for one in node.names:
                        if node.module == "rocketflow_store.spi":
                            spi_modules.add(one.asname or one.name)
                        yield path, node.module, one.name
            for node in found:
                if (
                    isinstance(node, ast.Attribute)
                    and isinstance(node.value, ast.Name)
                    and node.value.id in spi_modules
                ):
                    yield path, f"rocketflow_store.spi.{node.value.id}", node.attr


def is_of_the_store(module: str) -> bool:
    return module.split(".")[0] == "rocketflow_store"


def test_callers_import_the_doors_alone() -> None:
    doors = {"rocketflow_store", "rocketflow_store.spi", *(f"rocketflow_store.spi.{one}" for one in modules())}
    assert [(str(path), module) for path, module, _ in imports() if module not in doors] == []


def test_clients_and_the_wire_use_the_doors_of_the_ground_floor_alone() -> None:
    folders = [ROOT / "rocketflow" / one for one in ON_THE_GROUND_FLOOR]
    found = {
        (str(path.relative_to(ROOT)), module)
        for path, module, _ in imports()
        if any(path.is_relative_to(one) for one in folders) and module not in (*GROUND_FLOOR, TABLE_ROWS)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("doors", "packages"),
    [(GROUND_FLOOR, {"spi", "model", "format", "kernel"}), ((TABLE_ROWS,), {"spi", "model", "tables"})],
)
def test_doors_of_the_ground_floor_load_nothing_above_it(doors: tuple[str, ...], packages: set[str]) -> None:
    script = f"import sys, {', '.join(doors)}; print(*(one for one in sys.modules if 'rocketflow_store.' in one))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {one.split(".")[1] for one in done.stdout.split()} == packages


def test_modules_of_the_spi_export_few_names_and_each_has_a_caller() -> None:
    used: dict[str, set[str]] = {}
    for _, module, name in imports():
        used.setdefault(module, set()).add(name)
    for one in modules():
        exported = importlib.import_module(f"rocketflow_store.spi.{one}").__all__
        assert len(exported) <= MOST_NAMES, one
        assert len(set(exported)) == len(exported), one
        assert set(exported) - used.get(f"rocketflow_store.spi.{one}", set()) == set(), one


def test_names_of_the_users_door_exist_and_hold_every_error() -> None:
    found = {name: getattr(rocketflow_store, name) for name in rocketflow_store.__all__}
    from rocketflow_store.model import errors

    kinds = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.StoreError)}
    assert kinds <= set(found.values())


def test_doors_load_nothing_before_a_name_is_used() -> None:
    script = "import sys, rocketflow_store.spi; print(sorted(one for one in sys.modules if 'rocketflow_store' in one))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split("'")[1::2] == ["rocketflow_store", "rocketflow_store.spi"]
