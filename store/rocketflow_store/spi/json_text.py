"""JSON from outside the store, parsed with limits."""

from __future__ import annotations

from rocketflow_store.files.json_text import MAX_JSON_DEPTH, DeepJsonError, parse_json

__all__ = [
    "MAX_JSON_DEPTH",
    "DeepJsonError",
    "parse_json",
]
