"""The length of a call's route through a package: calls into other files, nested frames, opened files."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rocketflow_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_STORE = Path(rocketflow_store.__file__).parent


@dataclass(slots=True)
class Route:
    """A function of another source file than its caller's was called `changes` times; `depth` frames were nested.

    Only frames of one package count, those of comprehensions too.
    """

    changes: int = 0
    depth: int = 0
    files: set[str] = field(default_factory=set)
    by_edge: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a call went from the first of two files to the second."""
    deepest: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        edges = sorted(self.by_edge.items(), key=lambda one: -one[1])[:25]
        lines = [f"{count:5} {source} -> {target}" for (source, target), count in edges]
        return "\n".join([f"{self.changes} changes, depth {self.depth}", *lines, *self.deepest])


def route_of(call: Callable[[], object]) -> Route:
    """Return the route of `call` in this thread through `rocketflow_store`."""
    with route_through(_STORE) as route:
        call()
    return route


@contextmanager
def route_through(package: Path) -> Iterator[Route]:
    """Note the route of what this thread does in the block through the package at a path."""
    route, stack, root = Route(), [""], f"{package}/"

    def profile(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if not name.startswith(root):
            return
        if event == "call":
            file = name.removeprefix(root)
            if file != stack[-1]:
                route.changes += 1
                edge = stack[-1], file
                route.by_edge[edge] = route.by_edge.get(edge, 0) + 1
            stack.append(file)
            route.files.add(file)
            if len(stack) - 1 > route.depth:
                route.depth = len(stack) - 1
                route.deepest = _names(frame, root)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield route
    finally:
        sys.setprofile(before)


@contextmanager
def opened_files(root: Path) -> Iterator[Counter[str]]:
    """Count how often each file below `root` is opened in the block, by its relative path."""
    if not _listeners.hooked:
        sys.addaudithook(_listeners)
        _listeners.hooked = True
    opened: Counter[str] = Counter()
    _listeners.counters.append((str(root) + "/", opened))
    try:
        yield opened
    finally:
        _listeners.counters.pop()


class _Listeners:
    """The audit hook: one for the process, since none can be removed."""

    def __init__(self) -> None:
        self.hooked = False
        self.counters: list[tuple[str, Counter[str]]] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self.counters:
            return
        for root, opened in self.counters:
            path = str(arguments[0])
            if path.startswith(root):
                opened[path.removeprefix(root)] += 1


_listeners = _Listeners()


def _names(frame: FrameType | None, root: str) -> list[str]:
    names = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(root):
            names.append(f"{frame.f_code.co_filename.removeprefix(root)}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return names[::-1]
