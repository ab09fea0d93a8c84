"""The commits of a sink: to the store, opened for the time of one commit, or through the broker that serves it.

Writers share the store by its lock; a commit waits for it for at most `lockTimeout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow import store_writes
from rocketflow_store import StoreReader
from rocketflow_store.spi.commits import commit_nothing
from rocketflow_store.spi.places import is_store

if TYPE_CHECKING:
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store.spi.commits import CommitResult, SinkBatch


class AppendPort:
    """Commits batches of a sink."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def commit(self, batch: SinkBatch) -> CommitResult:
        """Append the batch to the log once; after the return it is in the log.

        Raises StoreLockedError if a process that is no broker holds the lock for longer than `lockTimeout`.
        """
        options = self.options
        return store_writes.commit(
            options.path,
            options.store_config(),
            lambda commits: commits.commit_batch(batch, queues=options.queues, replay_mismatch=options.replay_mismatch),
            store_writes.Patience(options.lock_timeout_ms / 1000),
        )

    def commit_nothing(self, sink_id: str, query_id: str | None, batch_id: int) -> None:
        """Check a batch that has no rows and no parts, without a lock."""
        if is_store(self.options.path, self.options.store_config()):
            with StoreReader(self.options.path, self.options.store_config()) as reader:
                commit_nothing(reader, sink_id, query_id, batch_id, self.options.replay_mismatch)
