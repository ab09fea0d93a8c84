"""Pulls of ranges (request 30009): records of many messages in one answer, for readers that check them in bulk.

It is for the Spark source of RocketFlow, which knows the offsets it wants; the checks are those of request 11. Reads
run in threads of their own, so that the event loop waits neither for the disk nor for the copy.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from rocketflow.access.permissions import SUBSCRIBE, Action, client_row, group_of, topic_of
from rocketflow.access.served import serves
from rocketflow.aio.server import OVERLOAD, RefusedError, Request
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader, PullRangeResponseHeader

if TYPE_CHECKING:
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.reads.pulls import PullChecks
    from rocketflow_store.spi.broker import WritingStore

MAX_BYTES: Final = 4 << 20
READERS: Final = 2
MAX_WAITING: Final = 256


class RangePulls:
    """Request 30009."""

    def __init__(
        self, store: WritingStore, tables: Tables, checks: PullChecks, counts: MessageCounts, access: Access
    ) -> None:
        self._store, self._groups, self._checks, self._counts = store, tables.groups, checks, counts
        self._access = access
        self._readers = ThreadPoolExecutor(READERS, "ranges")
        self._waiting = 0

    @serves(RequestCode.ROCKETFLOW_PULL_RANGE, client_row(topic_of(Action.SUB), group_of(Action.SUB), record=SUBSCRIBE))
    async def pull(self, request: Request) -> None:
        """Answer with the records of the first offsets of a range."""
        header = request.command.header(PullRangeRequestHeader)
        await self._groups.for_use(header.consumer_group)
        self._checks.check(header.consumer_group, header.topic, header.queue_id, request.channel.address)
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
        self._access.check_pulled(request, header.topic, found.data)
        answer = PullRangeResponseHeader(
            next_offset=found.next_offset, min_offset=found.min_offset, max_offset=found.max_offset
        )
        self._counts.pulled(header.topic, header.consumer_group, found.rows_from(header.start), len(found.data))
        request.reply(header=answer, data=found.data)

    def stop(self) -> None:
        """Begin no further read."""
        self._readers.shutdown(wait=False, cancel_futures=True)
