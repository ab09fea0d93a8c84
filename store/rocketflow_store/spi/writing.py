"""Opening a store for writing while other processes do so too."""

from __future__ import annotations

from rocketflow_store.engine.open_when_free import open_when_free
from rocketflow_store.files.lock import when_free

__all__ = [
    "open_when_free",
    "when_free",
]
