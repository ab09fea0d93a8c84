"""Loads the extension module, unless the environment switches it off."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType

INTERFACE: Final = 17
"""What the Python side expects; a module that was compiled from an older checkout has another number."""

NO_KERNEL: Final = "ROCKETFLOW_NO_KERNEL"
REQUIRE_KERNEL: Final = "ROCKETFLOW_REQUIRE_KERNEL"


class KernelState(NamedTuple):
    """Whether compiled code runs; `why` says why not, and what would change it."""

    is_compiled: bool
    why: str = ""


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


def _load() -> tuple[ModuleType | None, KernelState]:
    if _is_set(NO_KERNEL):
        return None, KernelState(False, f"{NO_KERNEL} is set: unset it")
    try:
        module = import_module("rocketflow_store.kernel._kernel")
    except ImportError as error:
        why = f"it is not installed ({error}): install a C compiler, then RocketFlow again"
    else:
        if module.INTERFACE == INTERFACE:
            return module, KernelState(True)
        why = "it was compiled from other sources: install RocketFlow again (make setup)"
    if _is_set(REQUIRE_KERNEL):
        raise ImportError(f"the compiled kernel is required ({REQUIRE_KERNEL}), but {why}")
    return None, KernelState(False, why)


COMPILED, STATE = _load()
"""The extension module, None if it is missing or switched off, and why."""
