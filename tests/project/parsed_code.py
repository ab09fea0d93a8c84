"""The syntax trees of source texts, parsed once a process: many rules look at the same modules."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module's text; do not change it."""
    return ast.parse(text)


@cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module's text, in the order of `ast.walk`."""
    return tuple(ast.walk(parsed(text)))
