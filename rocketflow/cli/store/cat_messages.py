"""The messages of a topic that `store cat` shows: queue by queue, the newest ones, or as they arrive."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from rocketflow.cli.shared.message_rows import MESSAGE_FIELDS
from rocketflow_store import GetMessageStatus
from rocketflow_store.spi.reads import messages_in

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from rocketflow.cli.store.skipped_messages import SkippedReport
    from rocketflow_store import ReceivedMessage, StoreReader

_AT_A_TIME: Final = 32


FIELDS: Final[dict[str, dict[str, str]]] = {
    "store cat": MESSAGE_FIELDS,
    "store find": MESSAGE_FIELDS,
}
"""The fields of the JSON that is printed here, by command; a dot separates levels, `*` is any name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Messages of a topic to show: queue offsets [start, end), stored at or after `since_ms`, with `tags`."""

    topic: str
    queue: int | None = None
    start: int | None = None
    end: int | None = None
    since_ms: int | None = None
    tags: str | None = None


class TopicMessages:
    """Reads the messages of a selection; messages that cannot be read are reported to `skipped`."""

    def __init__(self, reader: StoreReader, selection: Selection, skipped: SkippedReport) -> None:
        self._reader, self._selection, self._skipped = reader, selection, skipped
        self._positions: dict[int, int] = {}

    def oldest_first(self) -> Iterator[ReceivedMessage]:
        """Yield the messages queue by queue, from where an earlier call stopped."""
        for queue_id in self._queues():
            low, stop = self._range(queue_id)
            at = self._positions.get(queue_id, low)
            self._positions[queue_id] = yield from self._read(queue_id, at, stop)

    def newest(self, count: int) -> list[ReceivedMessage]:
        """Return the `count` messages that were stored last, in the order of the log."""
        backward = []
        for queue_id in self._queues():
            low, stop = self._range(queue_id)
            self._positions[queue_id] = max(low, stop)
            backward.append(self._backward(queue_id, low, stop, min(max(count, _AT_A_TIME), 1024)))
        newest_first = heapq.merge(*backward, key=lambda one: (-one.physical_offset, -one.queue_offset))
        return list(islice(newest_first, count))[::-1]

    def arriving(self, first: Iterator[ReceivedMessage]) -> Iterator[ReceivedMessage | None]:
        """Yield `first`, then messages as they arrive, without end; None if no message has arrived."""
        while True:
            found = False
            for message in first:
                found = True
                yield message
            if not found:
                yield None
            first = self.oldest_first()

    def _queues(self) -> list[int]:
        queue = self._selection.queue
        return [queue] if queue is not None else self._reader.queues(self._selection.topic)

    def _range(self, queue_id: int) -> tuple[int, int]:
        """Return the offsets of a queue to read; report those that were removed once."""
        asked = self._selection
        low, high = self._reader.bounds(asked.topic, queue_id)
        stop = high if asked.end is None else min(asked.end, high)
        if queue_id in self._positions:
            return low, stop
        if asked.start is not None:
            self._skipped.removed(queue_id, asked.start, min(low, high if asked.end is None else asked.end))
            low = max(low, asked.start)
        if asked.since_ms is not None:
            found = self._reader.search_by_time(asked.topic, queue_id, asked.since_ms)
            first, last = found.unreadable
            low = max(low, min(first, found.offset) if first < last else found.offset)
        return low, stop

    def _backward(self, queue_id: int, low: int, stop: int, step: int) -> Iterator[ReceivedMessage]:
        while low < stop:
            start = max(low, stop - step)
            yield from list(self._read(queue_id, start, stop))[::-1]
            stop = start

    def _read(self, queue_id: int, at: int, stop: int) -> Generator[ReceivedMessage, None, int]:
        """Yield the messages at queue offsets [at, stop); return the offset where reading ended."""
        topic, tags = self._selection.topic, self._selection.tags
        while at < stop:
            got = self._reader.get_message(topic, queue_id, at, min(_AT_A_TIME, stop - at), tags)
            messages = got.messages
            self._skipped.look(queue_id, at, stop, got)
            for message in messages:
                yield from (one for one in messages_in(message) if at <= one.queue_offset < stop)
            if got.next_begin_offset <= at:
                self._skipped.unknown(queue_id, at, stop)
                break
            if got.status is GetMessageStatus.OFFSET_TOO_SMALL:
                self._skipped.removed(queue_id, at, min(got.next_begin_offset, stop))
            at = got.next_begin_offset
        return at
