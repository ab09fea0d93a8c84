"""Runs code with the compiled kernel switched off, to compare what it makes with what Python makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch


@contextmanager
def without_kernel(*modules: ModuleType) -> Iterator[None]:
    """Let `modules` find no kernel in the block."""
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(patch.object(module, "COMPILED", None))
        yield


def pure_python() -> ExitStack:
    """Return a context in which no loaded module of the product finds the kernel."""
    stack = ExitStack()
    for name, module in list(sys.modules.items()):
        if name.startswith(("rocketflow_store.", "rocketflow.")) and getattr(module, "COMPILED", None) is not None:
            stack.enter_context(patch.object(module, "COMPILED", None))
    return stack
