"""Events for operators, under stable codes."""

from __future__ import annotations

from rocketflow_store.telemetry.events import DATA_LOSS, EVENTS, report

__all__ = [
    "DATA_LOSS",
    "EVENTS",
    "report",
]
