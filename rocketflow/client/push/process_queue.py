"""The messages of one queue that a consumer has received and not finished, without I/O.

RocketMQ's source: client/impl/consumer/ProcessQueue.java, DefaultMQPushConsumerImpl.java (pullMessage).
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import ReceivedMessage


class QueueLimits(NamedTuple):
    """The most that a queue holds before it is read no further; `span` is the distance of its offsets, None for any."""

    messages: int = 1000
    size: int = 100 * 1024 * 1024
    span: int | None = 2000


DEFAULT_LIMITS: Final = QueueLimits()


class ProcessQueue:
    """Messages by queue offset; `commit_offset` never passes one that is unfinished.

    `next_offset` is where the queue is read next, at first its start position.
    """

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self._messages: OrderedDict[int, ReceivedMessage] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """Return the number of unfinished messages."""
        return len(self._messages)

    @property
    def size(self) -> int:
        """Return the bytes of the bodies of the unfinished messages."""
        return self._size

    @property
    def first_offset(self) -> int | None:
        """Return the offset of the first unfinished message, None for no message."""
        return next(iter(self._messages), None)

    @property
    def last_offset(self) -> int | None:
        """Return the offset of the last unfinished message, None for no message."""
        return next(reversed(self._messages), None)

    @property
    def commit_offset(self) -> int:
        """Return the first offset that is not finished: everything before it was consumed, or not subscribed to."""
        return next(iter(self._messages), self.next_offset)

    def add(self, messages: Iterable[ReceivedMessage], next_offset: int) -> list[ReceivedMessage]:
        """Add the messages of a pull, which ends before `next_offset`; return those that were not received before."""
        added = [one for one in messages if one.queue_offset >= self.next_offset]
        for one in added:
            self._messages[one.queue_offset] = one
            self._size += len(one.stored_body)
        self.next_offset = max(self.next_offset, next_offset)
        return added

    def finish(self, messages: Iterable[ReceivedMessage]) -> None:
        """Remove messages that need no further work; those that are no longer here are skipped."""
        for one in messages:
            if self._messages.get(one.queue_offset) is one:
                del self._messages[one.queue_offset]
                self._size -= len(one.stored_body)

    def head(self, count: int) -> Sequence[ReceivedMessage]:
        """Return the first `count` unfinished messages."""
        return list(itertools.islice(self._messages.values(), count))

    def is_full(self, limits: QueueLimits) -> bool:
        """Check whether the queue is to be read no further until messages are finished."""
        if not self._messages:
            return False
        if len(self._messages) >= limits.messages or self._size >= limits.size:
            return True
        if limits.span is None:
            return False
        return next(reversed(self._messages)) - next(iter(self._messages)) > limits.span
