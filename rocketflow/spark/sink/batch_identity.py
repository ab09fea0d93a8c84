"""The identity of a batch of rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchIdentity:
    """The batch and the run that a task works on."""

    sink_id: str
    query_id: str
    batch_id: int
    run_id: str
