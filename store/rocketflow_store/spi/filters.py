"""Filters of messages: tags and SQL92."""

from __future__ import annotations

from rocketflow_store.filters.sql92 import SqlFilter, compile_filter
from rocketflow_store.filters.tags import TagFilter

__all__ = [
    "SqlFilter",
    "TagFilter",
    "compile_filter",
]
