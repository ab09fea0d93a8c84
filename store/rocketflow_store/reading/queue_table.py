"""The queues of a store as its reads see them: a writer has its own, a reader follows those of another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue


class QueueTable(Protocol):
    """Queues, as reads need them."""

    @property
    def paths(self) -> StorePaths: ...

    def names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of every queue."""
        ...

    def plain(self) -> list[ConsumeQueue]:
        """Return the queues that do not belong to a BatchCQ topic."""
        ...

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, None if it does not exist."""
        ...

    def find_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """Return a BatchCQ topic's queue, None if it does not exist."""
        ...

    def bounds(self, topic: str, queue_id: int, *, nowait: bool = False) -> tuple[int, int]:
        """Return the (min, max) queue offsets that may be read; (0, 0) for a queue that does not exist.

        WouldBlockError with `nowait` if units of a BatchCQ topic's queue are not in the page cache.
        """
        ...
