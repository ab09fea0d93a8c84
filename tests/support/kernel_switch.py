"""Run code with the compiled kernel switched off in some modules, to compare what it makes with what Python makes."""

from __future__ import annotations

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
