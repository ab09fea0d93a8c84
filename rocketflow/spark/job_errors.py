"""How a Spark job ends when it fails: one line on stderr, and the exit code of the error behind it."""

from __future__ import annotations

import re
import sys
from typing import Final

from rocketflow.errors import RocketFlowError
from rocketflow_store.errors import StoreError

_OWN_ERROR: Final = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Invalid|Exception)): (.+)$", re.MULTILINE)
_USAGE: Final = {
    "AnalysisException",
    "ParseException",
    "OptionError",
    "UnknownColumnError",
    "ColumnNameError",
    "ColumnTypeError",
    "SinkSchemaError",
    "PathNotSharedError",
}


def exit_code_of(error: BaseException) -> int:
    """Print `error: ...` for a failed job and tell its exit code; an error of Python workers is found in its text."""
    if isinstance(error, (StoreError, RocketFlowError)):
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    text = str(error)
    if type(error).__name__ in _USAGE:  # Spark's of a query or a trigger that it does not understand
        print(f"error: {text.strip().splitlines()[0]}", file=sys.stderr)
        return 2
    found = [match for match in _OWN_ERROR.finditer(text) if match[1] != "PySparkRuntimeError"]
    if found:
        name, what = found[-1][1], found[-1][2]
        print(f"error: {what.strip()}", file=sys.stderr)
        return exit_code_by_name(name)
    print(f"error: {text.strip().splitlines()[0] if text.strip() else type(error).__name__}", file=sys.stderr)
    return 1


def exit_code_by_name(name: str) -> int:
    """Exit code of a store error's class by its name; 1 for others."""
    from rocketflow_store import errors

    if name in _USAGE:
        return 2
    kind = getattr(errors, name, None)
    return int(kind.exit_code) if isinstance(kind, type) and issubclass(kind, StoreError) else 1
