"""The public API as text, from the syntax trees of its doors alone: the same on every version of Python.

`public_api.txt` holds it. After a deliberate change rewrite it: `python -m tests.project.public_api`.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).with_name("public_api.txt")
PACKAGES: Final = ("rocketflow_store", "rocketflow_store/spi", "rocketflow/client", "rocketflow/testing")
PROTOCOLS: Final = {
    *("__init__", "__call__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__iter__", "__next__"),
    *("__aiter__", "__anext__", "__len__", "__getitem__", "__contains__", "__bool__"),
}
"""Special methods that are a part of a class's signature."""


class Module:
    """The names of a module, and what they stand for."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.defined: dict[str, list[ast.stmt]] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self._add(tree.body)

    def _add(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.If):
                self._add([*node.body, *node.orelse])
            elif isinstance(node, ast.Try):
                self._add([*node.body, *(one for handler in node.handlers for one in handler.body)])
            elif isinstance(node, ast.ImportFrom) and node.module:
                self.imported |= {one.asname or one.name: (node.module, one.name) for one in node.names}
            elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.defined.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    self.defined.setdefault(ast.unparse(target), []).append(node)

    @property
    def exported(self) -> list[str]:
        """The names of `__all__`, sorted; none if the module has no such list of texts."""
        for node in self.defined.get("__all__", []):
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List | ast.Tuple):
                return sorted(ast.literal_eval(node.value))
        return []


def path_of(name: str) -> Path | None:
    """Return the file of a module of the product; None if it is another one's."""
    base = ROOT / ("store" if name.split(".")[0] == "rocketflow_store" else "") / name.replace(".", "/")
    found = [path for path in (base / "__init__.py", base.with_name(f"{base.name}.py")) if path.exists()]
    return found[0] if found and name.startswith("rocketflow") else None


@cache
def module(name: str) -> Module | None:
    """Return a module of the product."""
    path = path_of(name)
    return None if path is None else Module(name, ast.parse(path.read_text("utf-8")))


def home(door: str, name: str) -> tuple[Module, list[ast.stmt]] | None:
    """Return the module that defines what a module calls `name`, with the definitions; None if it is outside."""
    found = module(door)
    while found is not None:
        if name in found.defined:
            return found, found.defined[name]
        if name not in found.imported:
            return None
        door, name = found.imported[name]
        found = module(door)
    return None


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a function without its body."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    shown = "".join(f"@{one} " for one in decorators if not one.endswith(("abstractmethod", "override", "wraps")))
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{shown}{word} {node.name}({ast.unparse(node.args)}){returned}"


def own_members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the names and lines of all members that the body of a class defines."""
    declared = {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
    for one in node.body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name, signature(one)
            if one.name == "__init__":
                attributes = {it.attr for it in ast.walk(one) if isinstance(it, ast.Attribute) and is_set(it)}
                yield from ((name, f"{name}: attribute") for name in attributes - declared)
        elif isinstance(one, ast.AnnAssign):
            if isinstance(one.value, ast.Call):
                one.value.args = [value for value in one.value.args if not is_prose(value)]
            yield ast.unparse(one.target), ast.unparse(one)
        elif isinstance(one, ast.Assign):
            yield ast.unparse(one.targets[0]), ast.unparse(one)


def members(where: Module, node: ast.ClassDef, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the public members of a class, and those of its bases that it does not have itself."""
    own = [(name, line) for name, line in own_members(node) if name in PROTOCOLS or not name.startswith("_")]
    yield from (one for one in own if one[0] not in seen)
    seen |= {name for name, _ in own}
    for base in node.bases:
        found = home(where.name, ast.unparse(base).split("[")[0])
        if found is not None:
            for one in found[1]:
                if isinstance(one, ast.ClassDef):
                    yield from members(found[0], one, seen)


def is_prose(node: ast.expr) -> bool:
    """Return True if an argument describes a field."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    )


def is_set(node: ast.Attribute) -> bool:
    """Return True if an attribute of `self` is set."""
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "self"


def order(member: tuple[str, str]) -> tuple[str, str]:
    """Return the key by which members are sorted: fields are not, since callers give them by position."""
    name, line = member
    return ("", "") if line.startswith(f"{name}: ") and not line.endswith(": attribute") else member


def described(where: Module, node: ast.stmt) -> Iterator[str]:
    """Yield the lines of one definition."""
    if isinstance(node, ast.ClassDef):
        decorators = "".join(f"@{ast.unparse(one)} " for one in node.decorator_list)
        bases = ", ".join(ast.unparse(one) for one in (*node.bases, *(word.value for word in node.keywords)))
        yield f"{decorators}class {node.name}({bases})" if bases else f"{decorators}class {node.name}"
        yield from (f"    {line}" for _, line in sorted(members(where, node, set()), key=order))
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield signature(node)
    elif isinstance(node, ast.AnnAssign):
        yield f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    else:
        yield ast.unparse(node)


def doors() -> list[str]:
    """Return the public modules: those of the packages that list their names."""
    found = []
    for package in PACKAGES:
        folder = ROOT / ("store" if package.startswith("rocketflow_store") else "") / package
        name = package.replace("/", ".")
        inner = sorted(one.stem for one in folder.glob("*.py")) if name.endswith(".spi") else []
        inner += sorted(one.parent.name for one in folder.glob("*/__init__.py")) if name == "rocketflow.client" else []
        found += [name, *(f"{name}.{one}" for one in inner if one != "__init__")]
    return found


def text() -> str:
    """Return the public API: each door with its names, each name described where it is met first."""
    lines: list[str] = []
    first: dict[tuple[str, str], str] = {}
    for door in doors():
        found = module(door)
        if found is None or not found.exported:
            continue
        lines += ["", f"# {door}"]
        for name in found.exported:
            defined = home(door, name)
            if defined is None:
                lines.append(f"{name}: from outside")
                continue
            where, nodes = defined
            known = first.setdefault((where.name, name), door)
            if known != door:
                lines.append(f"{name}: as in {known}")
            else:
                lines += [line for node in nodes for line in described(where, node)]
    return "\n".join(lines[1:]) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
    sys.stdout.write(f"{FILE}\n")
