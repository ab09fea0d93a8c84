"""Chosen rows of a requeue, and the progress of a run through its queues after some of them are moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.delivery.requeue.requeue_run import Queues

WINDOW_OFFSETS: Final = 1 << 20
"""Source offsets of one window: the memory for its rows is bounded."""


class NoOriginError(StoreError):
    """A message without the topic that it came from."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows by (queue id, queue offset), ascending; row i goes to `topics[topic_of[i]]` and has `sizes[i]` bytes."""

    queue_ids: npt.NDArray[np.int32]
    queue_offsets: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    topics: tuple[str, ...]
    topic_of: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.queue_offsets)

    @classmethod
    def nothing(cls) -> Choice:
        """Return a choice without rows."""
        none = np.zeros(0, np.int32)
        return cls(none, none.astype(np.int64), none.astype(np.int64), (), none)

    def keep(self, rows: npt.NDArray[Any]) -> Choice:
        """Return some of the rows, in order."""
        return Choice(
            self.queue_ids[rows], self.queue_offsets[rows], self.sizes[rows], self.topics, self.topic_of[rows]
        )

    def by_topic(self) -> dict[str, int]:
        """Return the number of rows by topic, for topics that get any."""
        counts = np.bincount(self.topic_of, minlength=len(self.topics)).tolist()
        return {topic: count for topic, count in sorted(zip(self.topics, counts, strict=True)) if count}

    def processed(self, window: Queues, rows: int) -> Queues:
        """Return the part of the rows' window that is done after the first `rows` of them are moved."""
        queue_id, offset = int(self.queue_ids[rows - 1]), int(self.queue_offsets[rows - 1])
        before = {one: bounds for one, bounds in window.items() if one < queue_id}
        return {**before, queue_id: (window[queue_id][0], offset + 1)}


def windows(left: Queues) -> Iterator[Queues]:
    """Yield consecutive parts of queues, of at most WINDOW_OFFSETS offsets together."""
    window: Queues = {}
    capacity = WINDOW_OFFSETS
    for queue_id, (begin, end) in sorted(left.items()):
        at = begin
        while at < end:
            stop = min(end, at + capacity)
            window[queue_id] = (at, stop)
            capacity -= stop - at
            at = stop
            if capacity == 0:
                yield window
                window, capacity = {}, WINDOW_OFFSETS
    if window:
        yield window
