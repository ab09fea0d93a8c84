"""The compiled kernel: whether it runs."""

from __future__ import annotations

from rocketflow_store.kernel.loading import STATE, KernelState

__all__ = ["STATE", "KernelState"]
