"""The port that commits batches: at present the store itself, opened for the time of one commit.

Writers share the store by its lock; a commit waits for it for at most `lockTimeout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketflow_store import StoreReader
from rocketflow_store.spi.commits import commit_batch, commit_nothing
from rocketflow_store.spi.places import is_store
from rocketflow_store.spi.writing import open_when_free

if TYPE_CHECKING:
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store import MessageStore
    from rocketflow_store.spi.commits import CommitResult, SinkBatch


class AppendPort(Protocol):
    """Commits batches of a sink."""

    def commit(self, batch: SinkBatch) -> CommitResult:
        """Append the batch to the log once; after the return it is in the log."""
        ...

    def commit_nothing(self, sink_id: str, query_id: str | None, batch_id: int) -> None:
        """Check a batch that has no rows and no parts."""
        ...


class DirectAppendPort:
    """Takes the store's lock, commits, and releases the lock."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def commit(self, batch: SinkBatch) -> CommitResult:
        """Commit as `AppendPort.commit`; raise StoreLockedError if another process holds the lock for longer."""
        options = self.options
        with self._open() as store:
            return commit_batch(store, batch, queues=options.queues, replay_mismatch=options.replay_mismatch)

    def commit_nothing(self, sink_id: str, query_id: str | None, batch_id: int) -> None:
        """Check as `AppendPort.commit_nothing`, without a lock."""
        if is_store(self.options.path, self.options.store_config()):
            with StoreReader(self.options.path, self.options.store_config()) as reader:
                commit_nothing(reader, sink_id, query_id, batch_id, self.options.replay_mismatch)

    def _open(self) -> MessageStore:
        options = self.options
        config = options.store_config()
        return open_when_free(options.path, config, options.lock_timeout_ms / 1000)
