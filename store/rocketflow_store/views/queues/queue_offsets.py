"""The next queue offset of every queue: dense, rising, assigned under the put lock."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from rocketflow_store.records.arrow.queue_column import QueueColumn

    Ints = npt.NDArray[np.int64]

_NEAR: Final = 1 << 16
"""Queue ids below this are in one array per topic, so that many queues are one lookup."""
_UNKNOWN: Final = -1


class QueueOffsets:
    """Offsets by (topic, queue id); `end_of` returns the first one of a queue that is not known yet."""

    def __init__(self, end_of: Callable[[str, int], int]) -> None:
        self._end_of = end_of
        self.near: dict[str, array[int]] = {}
        """By topic, the next offsets of its first queues; an array is replaced when more queues are needed."""
        self._far: dict[tuple[str, int], int] = {}
        self._before: dict[str, int] = {}

    def messages_before(self, topic: str, queues: int) -> int:
        """Return how many messages queues `[0, queues)` of a topic had before the first offset was assigned here."""
        for queue_id in range(queues):
            self.next(topic, queue_id)
        return self._before.get(topic, 0)

    def fork(self) -> QueueOffsets:
        """Return offsets that continue from these, which stay unchanged until `join`."""
        return _Fork(self)

    def join(self, fork: QueueOffsets) -> None:
        """Take over the offsets that the fork assigned."""
        for topic, assigned in fork.near.items():
            found = np.frombuffer(assigned, np.int64)
            changed = np.flatnonzero(found != _UNKNOWN)
            np.frombuffer(self._room(topic, len(assigned)), np.int64)[changed] = found[changed]
        self._far.update(fork._far)

    def known(self) -> list[tuple[str, int, int]]:
        """Return (topic, queue id, next offset) of every queue that was requested; safe in any thread."""
        near = [
            (topic, queue_id, offset)
            for topic, offsets in list(self.near.items())
            for queue_id, offset in enumerate(offsets)
            if offset != _UNKNOWN
        ]
        return near + [(*key, offset) for key, offset in list(self._far.items())]

    def next(self, topic: str, queue_id: int) -> int:
        """Return the queue offset of the queue's next message."""
        near = self.near.get(topic)
        if near is not None and 0 <= queue_id < len(near):
            known = near[queue_id]
        else:
            known = self._far.get((topic, queue_id), _UNKNOWN)
        if known == _UNKNOWN:
            known = self._first_end(topic, queue_id)
            self._set(topic, queue_id, known)
        return known

    def advance(self, topic: str, queue_id: int, count: int = 1) -> None:
        """Advance a queue by `count` messages that were stored."""
        self._set(topic, queue_id, self.next(topic, queue_id) + count)

    def move_to(self, following: Mapping[tuple[str, int], int]) -> None:
        """Set the next offsets of queues for which `next` was called before."""
        for (topic, queue_id), offset in following.items():
            self._set(topic, queue_id, offset)

    def assign(self, queues: QueueColumn, queue_of: npt.NDArray[np.int32]) -> Ints:
        """Assign the offsets of rows, in order."""
        counts = np.bincount(queue_of, minlength=len(queues))
        first = np.empty(len(queues), np.int64)
        for topic, part in queues.by_topic():
            first[part] = self._take(topic, queues.ids[part], counts[part])
        order = np.argsort(queue_of, kind="stable")
        offsets = np.empty(len(queue_of), np.int64)
        offsets[order] = np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(len(order))
        return offsets

    def _take(self, topic: str, ids: Ints, counts: Ints) -> Ints:
        """Return the next offsets of different queues of a topic, and advance them by `counts`."""
        highest = int(ids.max())
        if highest >= _NEAR:
            first = np.array([self.next(topic, one) for one in ids.tolist()], np.int64)
            self.move_to({(topic, one): offset for one, offset in zip(ids.tolist(), (first + counts).tolist())})
            return first
        near = np.frombuffer(self._room(topic, highest + 1), np.int64)
        first = near[ids]
        unknown = np.flatnonzero(first == _UNKNOWN)
        if len(unknown):
            first[unknown] = self._ends_of(topic, ids[unknown])
        near[ids] = first + counts
        return first

    def _ends_of(self, topic: str, ids: Ints) -> Ints:
        return np.array([self._first_end(topic, one) for one in ids.tolist()], np.int64)

    def _first_end(self, topic: str, queue_id: int) -> int:
        """Return the end of a queue that was not requested before."""
        end = self._end_of(topic, queue_id)
        self._before[topic] = self._before.get(topic, 0) + end
        return end

    def _set(self, topic: str, queue_id: int, offset: int) -> None:
        if 0 <= queue_id < _NEAR:
            self._room(topic, queue_id + 1)[queue_id] = offset
        else:
            self._far[topic, queue_id] = offset

    def _room(self, topic: str, ids: int) -> array[int]:
        """Return the topic's array, with space for at least `ids` queue ids."""
        near = self.near.get(topic)
        if near is None or len(near) < ids:
            known = near or array("q")
            near = self.near[topic] = known + array("q", [_UNKNOWN]) * (max(ids, 2 * len(known)) - len(known))
        return near


class _Fork(QueueOffsets):
    def __init__(self, base: QueueOffsets) -> None:
        super().__init__(base.next)
        self._base = base

    def _ends_of(self, topic: str, ids: Ints) -> Ints:
        return self._base._take(topic, ids, np.zeros(len(ids), np.int64))
