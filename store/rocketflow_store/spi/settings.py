"""Settings of the environment and of broker.conf, and the store's clock."""

from __future__ import annotations

from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.settings.broker_conf import ENVIRONMENT_PREFIX, KNOWN_KEYS, parse_properties, typed_value
from rocketflow_store.settings.loader import load_settings
from rocketflow_store.settings.settings_table import OWN_PREFIX, SETTINGS, Setting

__all__ = [
    "ENVIRONMENT_PREFIX",
    "KNOWN_KEYS",
    "OWN_PREFIX",
    "SETTINGS",
    "Clock",
    "Setting",
    "SystemClock",
    "load_settings",
    "parse_properties",
    "typed_value",
]
