"""The next queue offset of every queue: dense, rising, assigned under the put lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt


class QueueOffsets:
    """Offsets by (topic, queue id); `end_of` tells the first one of a queue that is not known yet."""

    def __init__(self, end_of: Callable[[str, int], int]) -> None:
        self._end_of = end_of
        self._next: dict[tuple[str, int], int] = {}

    def next(self, topic: str, queue_id: int) -> int:
        """The offset that the queue's next message gets."""
        known = self._next.get((topic, queue_id))
        if known is None:
            known = self._next[topic, queue_id] = self._end_of(topic, queue_id)
        return known

    def advance(self, topic: str, queue_id: int, count: int = 1) -> None:
        """`count` messages got their offsets for good."""
        self._next[topic, queue_id] = self.next(topic, queue_id) + count

    def assign(
        self,
        queues: Sequence[tuple[str, int]],
        queue_of: npt.NDArray[np.int32],
        pending: dict[tuple[str, int], int],
    ) -> npt.NDArray[np.int64]:
        """Offsets of rows in order; counts go to `pending`, for `advance_all` once the rows are in the log."""
        order = np.argsort(queue_of, kind="stable")
        counts = np.bincount(queue_of, minlength=len(queues))
        offsets = np.empty(len(queue_of), np.int64)
        at = 0
        for queue, count in zip(queues, counts.tolist(), strict=True):
            if count:
                first = self.next(*queue) + pending.get(queue, 0)
                offsets[order[at : at + count]] = np.arange(first, first + count)
                pending[queue] = pending.get(queue, 0) + count
                at += count
        return offsets

    def advance_all(self, pending: dict[tuple[str, int], int]) -> None:
        """Make the counts of `assign` final."""
        for queue, count in pending.items():
            self.advance(*queue, count)
