"""The commits of a sink: to the store, opened for the time of one commit, or through the broker that serves it.

A sink over the network has no directory: tasks have sent their parts to the broker that commits them.

Writers share the store by its lock; a commit waits for it for at most `lockTimeout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow import store_writes
from rocketflow_store import StoreReader
from rocketflow_store.spi.commits import check_nothing, commit_nothing
from rocketflow_store.spi.places import is_store

if TYPE_CHECKING:
    from rocketflow.spark.sink.remote_store import RemoteStore
    from rocketflow.spark.sink.sink_options import SinkOptions
    from rocketflow_store.spi.commits import CommitResult, SinkBatch


class AppendPort:
    """Commits batches of a sink; `address` is that of the broker for a sink over the network."""

    def __init__(self, options: SinkOptions, address: str | None = None) -> None:
        self.options, self.address = options, address

    @property
    def is_by_sends(self) -> bool:
        """True if tasks have sent the rows to RocketMQ's brokers, which have no commits."""
        return self.options.network is not None and self.address is None

    def commit(self, batch: SinkBatch) -> CommitResult:
        """Append the batch to the log once; after the return it is in the log.

        Raises StoreLockedError if a process that is no broker holds the lock for longer than `lockTimeout`; over the
        network as `RemoteStore` does.
        """
        options = self.options
        if self.address is not None:
            return self._remote(self.address).commit(
                batch, queues=options.queues, replay_mismatch=options.replay_mismatch, sync=options.is_synced
            )
        return store_writes.commit(
            options.path,
            options.store_config(),
            lambda commits: commits.commit_batch(batch, queues=options.queues, replay_mismatch=options.replay_mismatch),
            store_writes.Patience(options.lock_timeout_ms / 1000),
        )

    def commit_nothing(self, sink_id: str, query_id: str | None, batch_id: int) -> None:
        """Check a batch that has no rows and no parts, without a lock."""
        mismatch = self.options.replay_mismatch
        if self.address is not None:
            check_nothing(self._remote(self.address).last_commit(sink_id), query_id, batch_id, mismatch)
        elif is_store(self.options.path, self.options.store_config()):
            with StoreReader(self.options.path, self.options.store_config()) as reader:
                commit_nothing(reader, sink_id, query_id, batch_id, mismatch)

    def _remote(self, address: str) -> RemoteStore:
        from rocketflow.spark.sink.remote_store import RemoteStore

        assert self.options.network is not None
        return RemoteStore(self.options.network, address)
