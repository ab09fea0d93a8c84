"""Staged parts: rows that tasks encoded and that no commit has appended to the log yet."""

from __future__ import annotations

from rocketflow_store.commits.staged_part import StagedPart, load_all, stage, stage_alike, write_part
from rocketflow_store.commits.staging_area import StagingArea

__all__ = [
    "StagedPart",
    "StagingArea",
    "load_all",
    "stage",
    "stage_alike",
    "write_part",
]
