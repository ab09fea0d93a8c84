"""Settings of the environment and of broker.conf, and the clock they come with."""

from __future__ import annotations

from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.settings.loader import load_settings

__all__ = [
    "Clock",
    "SystemClock",
    "load_settings",
]
