"""Staged parts: rows that tasks encoded and that no commit has appended to the log yet."""

from __future__ import annotations

from rocketflow_store.commits.proven_parts import proven_chunks
from rocketflow_store.commits.staged_part import StagedPart, stage, stage_alike, write_part
from rocketflow_store.commits.staging_area import StagingArea

__all__ = [
    "StagedPart",
    "StagingArea",
    "proven_chunks",
    "stage",
    "stage_alike",
    "write_part",
]
