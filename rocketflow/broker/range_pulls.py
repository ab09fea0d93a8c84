"""Pulls of ranges (request 30009): records of many messages in one answer, for readers that check them in bulk.

It is for the Spark source of RocketFlow, which knows the offsets it wants; consumers use request 11. Reads run in
threads of their own, so that the event loop waits neither for the disk nor for the copy.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from rocketflow.aio.server import OVERLOAD, RefusedError, Request
from rocketflow.broker.topics import PERM_READ
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader, PullRangeResponseHeader

if TYPE_CHECKING:
    from rocketflow.broker.counts import MessageCounts
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore

MAX_BYTES: Final = 4 << 20
READERS: Final = 2
MAX_WAITING: Final = 256


class RangePulls:
    """Request 30009."""

    def __init__(self, store: WritingStore, topics: Topics, settings: BrokerSettings, counts: MessageCounts) -> None:
        self._store, self._topics, self._settings, self._counts = store, topics, settings, counts
        self._readers = ThreadPoolExecutor(READERS, "ranges")
        self._waiting = 0

    async def pull(self, request: Request) -> None:
        """Answer with the records of the first offsets of a range."""
        header = request.command.header(PullRangeRequestHeader)
        self._check(header)
        if request.channel.is_congested or self._waiting >= MAX_WAITING:
            raise RefusedError(ResponseCode.SYSTEM_BUSY, OVERLOAD)
        self._waiting += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._readers,
                self._store.read_range,
                *(header.topic, header.queue_id, header.start, header.end, max(1, min(header.max_bytes, MAX_BYTES))),
            )
        finally:
            self._waiting -= 1
        answer = PullRangeResponseHeader(
            next_offset=found.next_offset, min_offset=found.min_offset, max_offset=found.max_offset
        )
        self._counts.pulled(header.topic, header.consumer_group, found.rows_from(header.start), len(found.data))
        request.reply(header=answer, data=found.data)

    def stop(self) -> None:
        """Begin no further read."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    def _check(self, header: PullRangeRequestHeader) -> None:
        """Raise RefusedError for a topic that does not exist or may not be read."""
        topic = self._topics.known(header.topic)
        if not self._settings.broker_permission & PERM_READ or not topic.perm & PERM_READ:
            raise RefusedError(ResponseCode.NO_PERMISSION, f"the topic[{header.topic}] pulling message is forbidden")
        if not 0 <= header.queue_id < topic.read_queue_nums:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, f"topic {header.topic} has no queue {header.queue_id}")
