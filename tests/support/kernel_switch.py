"""Runs code without the compiled kernel, in this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rocketflow_store.kernel import COMPILED


@contextmanager
def without_kernel() -> Iterator[None]:
    """Let every loaded module go on as if there were no kernel."""
    users = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith(("rocketflow_store.", "rocketflow.")) and getattr(module, "COMPILED", None) is not None
    ]
    for module in users:
        module.COMPILED = None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module in users:
            module.COMPILED = COMPILED  # type: ignore[attr-defined]
