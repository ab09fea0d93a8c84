"""Exactly-once commits: a sink's batches, and progress that is committed together with its rows."""

from __future__ import annotations

from rocketflow_store.commits.batch_commit import (
    CheckpointWentBackError,
    CommitResult,
    CommitStatus,
    ReplayMismatchError,
    SinkBatch,
    SupersededRunError,
    check_nothing,
    check_sink_id,
    commit_at,
    commit_batch,
    commit_nothing,
    commit_places,
    last_commit,
    last_commits,
)
from rocketflow_store.commits.commit_target import CommitLogReads
from rocketflow_store.commits.progress_commit import ProgressBatch, ProgressMovedError
from rocketflow_store.commits.store_commits import Commits, StoreCommits
from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope, decode_envelope

__all__ = [
    "CheckpointWentBackError",
    "CommitEnvelope",
    "CommitLogReads",
    "CommitResult",
    "CommitStatus",
    "Commits",
    "ProgressBatch",
    "ProgressMovedError",
    "ReplayMismatchError",
    "SinkBatch",
    "StoreCommits",
    "SupersededRunError",
    "check_nothing",
    "check_sink_id",
    "commit_at",
    "commit_batch",
    "commit_nothing",
    "commit_places",
    "decode_envelope",
    "last_commit",
    "last_commits",
]
