"""How a job ends when it fails: one line on stderr, and the exit code of the error behind it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Final

from rocketflow.errors import RocketFlowError
from rocketflow.process.printable import printable
from rocketflow_store import StoreError

_TOLD_ERROR: Final = re.compile(r"^(?:: )?((?:\w+\.)*)(\w*(?:Error|Invalid|Exception)): (.+)$", re.MULTILINE)
_OF_OURS: Final = ("rocketflow.", "rocketflow_store.")
_OF_THE_QUERY: Final = frozenset({"AnalysisException", "ParseException"})
"""Spark's errors of a query or a trigger that it does not understand."""


def exit_code_of(error: BaseException) -> int:
    """Print `error: ...` for a failed job and tell its exit code; an error of Python workers is found in its text."""
    if isinstance(error, (StoreError, RocketFlowError)):
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    text = str(error)
    if type(error).__name__ in _OF_THE_QUERY:
        print(f"error: {printable(text.strip().splitlines()[0])}", file=sys.stderr)
        return 2
    found = [match for match in _TOLD_ERROR.finditer(text) if match[2] != "PySparkRuntimeError"]
    if found:
        ours = [match for match in found if match[1].startswith(_OF_OURS)]
        module, name, what = (ours or found)[-1].groups()
        print(f"error: {printable(what.strip())}", file=sys.stderr)
        return 2 if name in _OF_THE_QUERY else _exit_code_of_class(module.rstrip("."), name)
    lines = text.strip().splitlines()
    print(f"error: {printable(lines[0]) if lines else type(error).__name__}", file=sys.stderr)
    return 1


def _exit_code_of_class(module: str, name: str) -> int:
    """What an error class of ours ends with, by the name that a traceback gives it; 1 for others."""
    if not f"{module}.".startswith(_OF_OURS):
        return 1
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:  # text that only looks like a traceback's
        return 1
    return int(kind.exit_code) if isinstance(kind, type) and issubclass(kind, (StoreError, RocketFlowError)) else 1
