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
        known = self._next
        for queue in queues:
            if queue not in known:
                self.next(*queue)
        got = np.fromiter((pending.get(queue, 0) for queue in queues), np.int64, len(queues))
        first = np.fromiter(map(known.__getitem__, queues), np.int64, len(queues)) + got
        counts = np.bincount(queue_of, minlength=len(queues))
        order = np.argsort(queue_of, kind="stable")
        offsets = np.empty(len(queue_of), np.int64)
        offsets[order] = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(order))
        pending.update(zip(queues, (got + counts).tolist(), strict=True))
        return offsets

    def move_to(self, following: dict[tuple[str, int], int]) -> None:
        """The queues' next messages get these offsets."""
        self._next.update(following)

    def advance_all(self, pending: dict[tuple[str, int], int]) -> None:
        """Make the counts of `assign` final."""
        known = self._next
        known.update({queue: known[queue] + count for queue, count in pending.items()})
