"""Commits as jobs make them: to a store that they opened themselves, or through the broker that serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketflow_store.commits.batch_commit import commit_batch, last_commit
from rocketflow_store.commits.progress_commit import commit_progress

if TYPE_CHECKING:
    from rocketflow_store.commits.batch_commit import CommitResult, SinkBatch
    from rocketflow_store.commits.commit_target import CommitTarget
    from rocketflow_store.commits.progress_commit import ProgressBatch
    from rocketflow_store.metadata.native.commit_envelope import CommitEnvelope


class Commits(Protocol):
    """Commits to one store; errors are those of `commit_batch` and `commit_progress`."""

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """Return the newest envelope of a sink, None if it never committed."""
        ...

    def commit_batch(self, batch: SinkBatch, *, queues: int, replay_mismatch: str = "error") -> CommitResult:
        """Commit a batch once; see `batch_commit.commit_batch`."""
        ...

    def commit_progress(self, batch: ProgressBatch) -> CommitEnvelope:
        """Commit progress with its rows, and return the envelope; see `progress_commit.commit_progress`."""
        ...


class StoreCommits:
    """Commits to a store that this process has open."""

    def __init__(self, store: CommitTarget) -> None:
        self._store = store

    def last_commit(self, sink_id: str) -> CommitEnvelope | None:
        """Return the newest envelope of a sink."""
        return last_commit(self._store, sink_id)

    def commit_batch(self, batch: SinkBatch, *, queues: int, replay_mismatch: str = "error") -> CommitResult:
        """Commit a batch once."""
        return commit_batch(self._store, batch, queues=queues, replay_mismatch=replay_mismatch)

    def commit_progress(self, batch: ProgressBatch) -> CommitEnvelope:
        """Commit progress with its rows."""
        with self._store.commit_lock:
            commit_progress(self._store, batch)
            after = last_commit(self._store, batch.sink_id)
        assert after is not None, f"{batch.sink_id} was committed just now"
        return after
