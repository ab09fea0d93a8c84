"""Queues and index of a store that is open for writing: the files that can be rebuilt from the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.files.sync_together import sync_together
from rocketflow_store.views.dispatch.side_queues import SideQueues
from rocketflow_store.views.index.index_service import IndexService
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from typing import Self

    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class DerivedViews:
    """The open queue and index files of one store."""

    queues: FileQueueTable
    batch_queues: BatchQueueTable
    side_queues: SideQueues
    index: IndexService

    @classmethod
    def open(
        cls,
        paths: StorePaths,
        config: StoreConfig,
        log: CommitLogView,
        is_batch_cq: Callable[[str], bool],
        on_error: ExitStack,
    ) -> Self:
        """Return them for writing, before they look for their files; `on_error` closes them."""
        queues = FileQueueTable(paths.consume_queue, config.mapped_file_size_consume_queue, log, write=True)
        on_error.callback(queues.close)
        index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=True)
        on_error.callback(index.close)
        size = config.mapper_file_size_batch_consume_queue
        batch_queues = BatchQueueTable(paths.batch_consume_queue, size, write=True)
        on_error.callback(batch_queues.close)
        side = SideQueues(queues, batch_queues, is_batch_cq, multi_dispatch=config.enable_multi_dispatch)
        return cls(queues, batch_queues, side, index)

    def end(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last unit of a queue."""
        table = self.batch_queues if self.side_queues.is_batch_cq(topic) else self.queues
        return table.end(topic, queue_id)

    def has_topic(self, topic: str) -> bool:
        """Return True if the topic has a queue."""
        names = {name for name, _ in self.queues.names()} | {one.topic for one in self.batch_queues.all()}
        return topic in names

    def remove_topic(self, topic: str) -> list[int]:
        """Delete a topic's queues; return their ids."""
        return self.queues.remove_topic(topic) + self.batch_queues.remove_topic(topic)

    def sync(self) -> None:
        """Make every queue and the index durable."""
        sync_together([self.index.sync, *(queue.sync for queue in self.queues.unsynced())])
        self.batch_queues.sync()

    def close(self) -> None:
        """Close every file."""
        self.queues.close()
        self.batch_queues.close()
        self.index.close()
