"""Settings of the environment and of broker.conf, and the store's clock."""

from __future__ import annotations

from rocketflow_store.model.clock import Clock, SystemClock
from rocketflow_store.settings.broker_conf import STORE_TABLE, SettingTable, parse_properties, read_properties
from rocketflow_store.settings.loader import load_settings
from rocketflow_store.settings.settings_table import BY_KEY, SETTINGS

__all__ = [
    "BY_KEY",
    "SETTINGS",
    "STORE_TABLE",
    "Clock",
    "SettingTable",
    "SystemClock",
    "load_settings",
    "parse_properties",
    "read_properties",
]
