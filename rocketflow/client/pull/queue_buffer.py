"""The position in one queue, and the answers of the broker that wait to be polled. No I/O.

RocketMQ's source: client/impl/consumer/ProcessQueue.java, AssignedMessageQueue.java.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from rocketflow.client.consume.gaps import Span, announced, besides, is_complete, unannounced
from rocketflow.client.pull_status import PullStatus
from rocketflow.client.skipped import SkippedMessages
from rocketflow_store.spi.messages import CorruptRecordError

if TYPE_CHECKING:
    from rocketflow.client.consume.pulls import PullResult
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData
    from rocketflow_store.spi.messages import ReceivedMessage


class Answer(NamedTuple):
    """Records of a queue as its broker answered them.

    Messages in [from_offset, to_offset) are to be returned now, except those that `subscription` does not select. A
    decoder adds those that the records lack to `missing`, if they must have all of them.
    """

    queue: MessageQueue
    subscription: SubscriptionData
    records: bytes
    from_offset: int
    to_offset: int
    missing: list[Span] | None = None


A = TypeVar("A")


class QueueBuffer:
    """Holds what was pulled of a queue and not polled yet.

    `position` is the offset of the next message that `take` may return, `pull_offset` that of the next pull.
    """

    def __init__(self, queue: MessageQueue, subscription: SubscriptionData, position: int) -> None:
        self.queue = queue
        self._subscription = subscription
        self._position = self._pull_offset = position
        self._answers: deque[PullResult] = deque()
        self._messages: deque[ReceivedMessage] = deque()
        self._skipped: list[SkippedMessages] = []
        self._size = 0

    @property
    def subscription(self) -> SubscriptionData:
        """Return the subscription that selects the messages."""
        return self._subscription

    @property
    def position(self) -> int:
        """Return the offset of the next message to return."""
        return self._position

    @property
    def pull_offset(self) -> int:
        """Return the offset of the next pull."""
        return self._pull_offset

    @property
    def size(self) -> int:
        """Return the bytes that wait."""
        return self._size

    @property
    def count(self) -> int:
        """Return the offsets that were pulled and not returned; those of messages that the filter skipped count too."""
        return self._pull_offset - self._position

    @property
    def is_empty(self) -> bool:
        """Return whether no answer waits."""
        return not self._answers

    def add(self, result: PullResult, skipped: Sequence[SkippedMessages] = ()) -> None:
        """Add the answer to a pull from `pull_offset`, and messages that it lacks besides those that it announces."""
        if result.next_offset < self._pull_offset:  # the broker has reset the group's offset
            self.seek(result.next_offset)
            return
        self._pull_offset = result.next_offset
        self._skipped += (*announced(result), *skipped)
        if result.status is PullStatus.FOUND:
            self._answers.append(result)
            self._size += len(result.records)
        elif not self._answers:
            self._position = result.next_offset

    def passed(self) -> list[SkippedMessages]:
        """Return the messages before the position that are not returned, each once."""
        found = [one for one in self._skipped if one.start < self._position]
        self._skipped = [one for one in self._skipped if one.start >= self._position]
        return found

    def seek(self, offset: int) -> None:
        """Go on at an offset; what was pulled is dropped."""
        self._answers.clear()
        self._messages.clear()
        self._skipped.clear()
        self._size = 0
        self._position = self._pull_offset = offset

    def select(self, subscription: SubscriptionData) -> None:
        """Select messages by another subscription, from the position on; what was pulled is dropped."""
        self._subscription = subscription
        self.seek(self._position)

    def take(self, most: int) -> list[ReceivedMessage]:
        """Return up to `most` messages and move the position after them.

        Raises CorruptRecordError if the first answer cannot be decoded; the position stays.
        """
        found: list[ReceivedMessage] = []
        while self._answers and len(found) < most:
            if not self._messages:
                try:
                    self._messages.extend(self._decoded(self._answers[0]))
                except CorruptRecordError:
                    if found:
                        break  # the next call raises it
                    raise
            while self._messages and len(found) < most:
                found.append(self._messages.popleft())
                self._position = found[-1].queue_offset + 1
            if not self._messages:
                self._end_answer()
        return found

    def take_answer(self, decode: Callable[[Answer], A], most_bytes: int) -> A:
        """Return what `decode` makes of the next answers, joined to about `most_bytes`; move the position after them.

        Raises what `decode` raises; the position stays.
        """
        joined = [self._answers[0]]
        size = len(joined[0].records)
        for one in itertools.islice(self._answers, 1, None):
            if size >= most_bytes or one.request.offset != joined[-1].next_offset:
                break
            joined.append(one)
            size += len(one.records)
        records = b"".join(one.records for one in joined)
        missing: list[Span] | None = [] if all(map(is_complete, joined)) else None
        span = self._position, joined[-1].next_offset
        found = decode(Answer(self.queue, self._subscription, records, *span, missing))
        if missing:
            self._skipped += besides(self.queue, missing, joined)
        self._messages.clear()
        for _ in joined:
            self._end_answer()
        return found

    def _decoded(self, result: PullResult) -> list[ReceivedMessage]:
        try:
            messages = result.messages()
            self._skipped += unannounced(result, messages)
            return [one for one in messages if one.queue_offset >= self._position]
        except CorruptRecordError as error:
            raise CorruptRecordError(
                f"{result.address}: messages of {self.queue}",
                self._position,
                f"cannot be decoded from this offset on: {error}; seek after them to go on",
            ) from error

    def _end_answer(self) -> None:
        done = self._answers.popleft()
        self._size -= len(done.records)
        self._position = done.next_offset
