"""Run code with the compiled kernel switched off, to compare what it makes with what Python makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch


@contextmanager
def without_kernel(*modules: ModuleType) -> Iterator[None]:
    """Let `modules`, by default all that are loaded, find no kernel in the block."""
    with ExitStack() as stack:
        for module in modules or _users():
            stack.enter_context(patch.object(module, "COMPILED", None))
        yield


def _users() -> list[ModuleType]:
    loaded = [
        module for name, module in list(sys.modules.items()) if name.startswith(("rocketflow_store.", "rocketflow."))
    ]
    return [module for module in loaded if getattr(module, "COMPILED", None) is not None]
