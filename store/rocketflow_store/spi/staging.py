"""Staged parts: rows that tasks encoded, until a commit puts them into the log."""

from __future__ import annotations

from rocketflow_store.commits.staged_part import StagedPart, load_all, stage, stage_alike
from rocketflow_store.commits.staging_area import StagingArea

__all__ = [
    "StagedPart",
    "StagingArea",
    "load_all",
    "stage",
    "stage_alike",
]
