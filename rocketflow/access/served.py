"""Requests that a server serves: each code is declared once, at its processor, with what it needs."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rocketflow.access.permissions import Row
    from rocketflow.aio.server import Processor

F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "_serves"


class Served(NamedTuple):
    """A request code, what it needs, and its processor."""

    code: int
    row: Row
    processor: Processor


def serves(code: int, row: Row) -> Callable[[F], F]:
    """Declare that a method processes the requests of a code, which need what a row says."""

    def mark(processor: F) -> F:
        vars(processor).setdefault(_MARK, []).append((code, row))
        return processor

    return mark


def rows_of(*kinds: type) -> dict[int, Row]:
    """Return the rows that classes declare, by request code."""
    return {code: row for kind in kinds for one in vars(kind).values() for code, row in getattr(one, _MARK, ())}


def served_by(*parts: object) -> list[Served]:
    """Return the requests that the methods of objects process."""
    return [
        Served(code, row, getattr(part, name))
        for part in parts
        for name, one in vars(type(part)).items()
        for code, row in getattr(one, _MARK, ())
    ]


def declared_in(package: str) -> dict[int, Row]:
    """Return the rows that the classes of a package declare, by request code; imports all of its modules."""
    found = pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    modules = [importlib.import_module(one.name) for one in found]
    return rows_of(*(one for module in modules for one in vars(module).values() if isinstance(one, type)))
