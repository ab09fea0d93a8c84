"""Exactly-once commits: a sink's batches, and progress that is committed together with its rows."""

from __future__ import annotations

from rocketflow_store.commits.batch_commit import (
    CheckpointWentBackError,
    CommitResult,
    ReplayMismatchError,
    SinkBatch,
    check_sink_id,
    commit_at,
    commit_batch,
    commit_nothing,
    commit_places,
    last_commit,
    last_commits,
)
from rocketflow_store.commits.commit_target import CommitLogReads
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError, commit_progress
from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope

__all__ = [
    "CheckpointWentBackError",
    "CommitEnvelope",
    "CommitLogReads",
    "CommitResult",
    "ProgressBatch",
    "ProgressMovedError",
    "ReplayMismatchError",
    "SinkBatch",
    "check_sink_id",
    "commit_at",
    "commit_batch",
    "commit_nothing",
    "commit_places",
    "commit_progress",
    "last_commit",
    "last_commits",
]
