"""Report a failed job: one line on stderr, and the exit code of the error that caused it."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Final

from rocketflow.errors import RocketFlowError
from rocketflow.process.printable import printable

_ERROR_LINE: Final = re.compile(r"^(?:: )?((?:\w+\.)*)(\w*(?:Error|Invalid|Exception)): (.+)$", re.MULTILINE)
_OWN_LINE: Final = re.compile(
    r"(?:^|: )((?:rocketflow|rocketflow_store)\.(?:\w+\.)*)(\w*(?:Error|Invalid|Exception)): (.+)$", re.MULTILINE
)
"""An error of RocketFlow, alone on a line or after Spark's own words."""
_PACKAGES: Final = ("rocketflow.", "rocketflow_store.")
_QUERY_ERRORS: Final = frozenset({"AnalysisException", "ParseException"})
"""Spark's errors of an invalid query or trigger."""


def exit_code_of(error: BaseException) -> int:
    """Print `error: ...` for a failed job and return its exit code.

    The error of a Python worker or of the data source is found in the text of Spark's error.
    """
    if isinstance(error, RocketFlowError):
        print(f"error: {printable(str(error))}", file=sys.stderr)
        return error.exit_code
    text = str(error)
    found = [match for match in _ERROR_LINE.finditer(text) if match[2] != "PySparkRuntimeError"]
    native = list(_OWN_LINE.finditer(text))
    if type(error).__name__ in _QUERY_ERRORS and not native:
        print(f"error: {printable(text.strip().splitlines()[0])}", file=sys.stderr)
        return 2
    if native or found:
        module, name, what = (native or found)[-1].groups()
        print(f"error: {printable(what.strip())}", file=sys.stderr)
        return 2 if name in _QUERY_ERRORS else _exit_code_of_class(module.rstrip("."), name)
    lines = text.strip().splitlines()
    print(f"error: {printable(lines[0]) if lines else type(error).__name__}", file=sys.stderr)
    return 1


def _exit_code_of_class(module: str, name: str) -> int:
    """Return the exit code of a RocketFlow error class, by its name in a traceback, or 1 for other classes."""
    if not f"{module}.".startswith(_PACKAGES):
        return 1
    try:
        kind = getattr(importlib.import_module(module), name, None)
    except ImportError:  # the text only looks like a traceback
        return 1
    return int(kind.exit_code) if isinstance(kind, type) and issubclass(kind, RocketFlowError) else 1
