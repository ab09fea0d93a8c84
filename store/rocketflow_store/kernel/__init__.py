"""Compiled code for what flows in batches; without it the store's Python code does all of the work.

`hatch_build.py` compiles it where a C compiler is. It takes what is usual and leaves over the rest, so Python stays the
definition of every rule: callers ask `COMPILED`, and go on without it where it is None or returns None.
"""

from __future__ import annotations

from rocketflow_store.kernel.loading import COMPILED, STATE, KernelState

__all__ = ["COMPILED", "STATE", "KernelState"]
