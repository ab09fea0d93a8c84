"""The compiled kernel: whether it runs."""

from __future__ import annotations

from rocketflow_store.kernel.loading import STATE

__all__ = ["STATE"]
