"""Events for operators, under stable codes."""

from __future__ import annotations

from rocketflow_store.telemetry.events import DATA_LOSS, EVENTS, SUBSCRIPTION_CONFLICT, report

__all__ = [
    "DATA_LOSS",
    "EVENTS",
    "SUBSCRIPTION_CONFLICT",
    "report",
]
