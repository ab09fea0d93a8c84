"""Events: what operators have to hear of, under codes that stay."""

from __future__ import annotations

from rocketflow_store.telemetry.events import DATA_LOSS, EVENTS, tell

__all__ = [
    "DATA_LOSS",
    "EVENTS",
    "tell",
]
