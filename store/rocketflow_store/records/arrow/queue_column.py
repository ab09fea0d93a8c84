"""Queues as columns: with thousands of them, a (topic, id) tuple for each would cost more than its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


class QueueColumn(Sequence[tuple[str, int]]):
    """Distinct queues, (topic, id) each: queue k is `ids[k]` of `topics[topic_of[k]]`; the topics' queues adjoin."""

    __slots__ = ("ids", "topic_of", "topics")

    def __init__(self, topics: Sequence[str], topic_of: Ints, ids: Ints) -> None:
        self.topics, self.topic_of, self.ids = topics, topic_of, ids

    @classmethod
    def of(cls, queues: Sequence[tuple[str, int]]) -> QueueColumn:
        """Return `queues` as columns, or unchanged if they are columns."""
        if isinstance(queues, QueueColumn):
            return queues
        numbers: dict[str, int] = {}
        topic_of = [numbers.setdefault(topic, len(numbers)) for topic, _ in queues]
        return cls(list(numbers), np.array(topic_of, np.int64), np.array([one for _, one in queues], np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> tuple[str, int]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[tuple[str, int]]: ...
    def __getitem__(self, at: int | slice) -> tuple[str, int] | Sequence[tuple[str, int]]:
        if isinstance(at, slice):
            return QueueColumn(self.topics, self.topic_of[at], self.ids[at])
        return self.topics[int(self.topic_of[at])], int(self.ids[at])

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return ((self.topics[topic], one) for topic, one in zip(self.topic_of.tolist(), self.ids.tolist(), strict=True))

    def by_topic(self) -> list[tuple[str, slice]]:
        """Return each topic that has a queue here, with the slice of its queues."""
        starts = np.flatnonzero(np.diff(self.topic_of, prepend=-1)).tolist()
        return [
            (self.topics[int(self.topic_of[start])], slice(start, stop))
            for start, stop in zip(starts, [*starts[1:], len(self.ids)], strict=True)
        ]
