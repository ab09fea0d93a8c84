"""RocketFlow's errors as Spark shows them: their sentence first, without the traceback of the Python worker.

Spark puts the text that a Python worker writes about an exception into the message of its own error. PySpark reads
SPARK_HIDE_TRACEBACK at that moment; a worker that raised ends then, so the variable reaches no other code. With
ROCKETFLOW_DEBUG the traceback stays.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from rocketflow.environment import DEBUG
from rocketflow.errors import RocketFlowError
from rocketflow_store import StoreError

_Kind = TypeVar("_Kind", bound=type)
_VARIABLE: Final = "SPARK_HIDE_TRACEBACK"
_WORKERS: Final = ("pyspark.", "rocketflow.spark.shared.quiet_daemon")
OWN_ERRORS: Final = (StoreError, RocketFlowError)


def with_plain_errors(kind: _Kind) -> _Kind:
    """Wrap the methods of a class that Spark calls in a Python worker: errors of RocketFlow have no traceback."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _plain(method))
    return kind


def _plain(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(*given: Any, **named: Any) -> Any:
        try:
            found = method(*given, **named)
        except OWN_ERRORS:
            _hide_traceback()
            raise
        return _iterated(found) if isinstance(found, Iterator) else found

    return called


def _iterated(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except OWN_ERRORS:
        _hide_traceback()
        raise


def in_worker() -> bool:
    """Return True in a Python worker that Spark started."""
    main = getattr(sys.modules["__main__"], "__spec__", None)
    return main is not None and main.name.startswith(_WORKERS)


def _hide_traceback() -> None:
    if in_worker() and not DEBUG.text():
        os.environ[_VARIABLE] = "1"
