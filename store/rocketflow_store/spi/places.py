"""Directories: checks whether one may be a store, and the process that writes to it."""

from __future__ import annotations

from rocketflow_store.files.remote import is_uri
from rocketflow_store.metadata.layout.store_meta import store_id
from rocketflow_store.metadata.layout.store_paths import (
    check_directory,
    check_unlocked,
    check_writable_directory,
    holds_log,
    is_store,
    serving_broker,
)

__all__ = [
    "check_directory",
    "check_unlocked",
    "check_writable_directory",
    "holds_log",
    "is_store",
    "is_uri",
    "serving_broker",
    "store_id",
]
