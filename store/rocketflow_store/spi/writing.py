"""Opening a store for writing beside others that do so."""

from __future__ import annotations

from rocketflow_store.engine.open_when_free import open_when_free
from rocketflow_store.files.lock import when_free

__all__ = [
    "open_when_free",
    "when_free",
]
