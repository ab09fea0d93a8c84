"""The request codes that a server processes, from its source."""

from __future__ import annotations

import ast
from pathlib import Path

from rocketflow.remoting.codes import RequestCode


def processed(package: str) -> set[int]:
    """Return the request codes that tables of processors in a package have as keys."""
    found = set()
    for path in Path("rocketflow", package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for key in node.keys if isinstance(node, ast.Dict) else ():
                if isinstance(key, ast.Attribute) and key.attr in RequestCode.__members__:
                    found.add(RequestCode[key.attr].value)
    return found
