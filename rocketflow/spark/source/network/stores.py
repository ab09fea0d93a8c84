"""The brokers of a read, as the planner and the tasks use them: the methods of `SourceStores`, answered by requests.

A store's name is its broker's. Connections live in this module, one set for each process and network: Spark's reader
objects are pickled for every task, while a Python worker keeps its modules.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow.client.errors import ClientError
from rocketflow.client.sync.bridge import LOOP
from rocketflow.spark.source.network.broker_reads import PULL_ROWS, RANGE_ROWS, BrokerReads
from rocketflow.spark.source.network.pull_window import Piece, PullWindow
from rocketflow.spark.source.queue_choice import QueueChooser
from rocketflow.spark.source.store_access import QueueBounds
from rocketflow.spark.source.stream_offset import NO_RECORD, QueueKey, QueuePosition, StreamOffset
from rocketflow_store import OffsetOutOfRangeError
from rocketflow_store.spi.reads import PulledRecords

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow.spark.shared.network_options import Network
    from rocketflow.spark.source.task_planning import QueueRange
    from rocketflow_store import ReadFaults
    from rocketflow_store.spi.reads import Condition

AT_ONCE: Final = 16
RANGES_AT_ONCE: Final = 3
"""Pulls of one queue that are under way, of single messages and of ranges."""

_OPEN: dict[tuple[Network, int], BrokerReads] = {}


def open_reads(network: Network) -> BrokerReads:
    """Return the process's connections to a network; a forked process gets others."""
    key = network, os.getpid()
    found = _OPEN.get(key)
    if found is None:

        async def opened() -> BrokerReads:
            reads = BrokerReads(network)
            await reads.start()
            return reads

        found = _OPEN[key] = LOOP.wait(opened())
    return found


def close_reads(network: Network) -> None:
    """End the process's connections to a network, if there are any."""
    found = _OPEN.pop((network, os.getpid()), None)
    if found is not None:
        LOOP.wait(found.close())


class NetworkStores:
    """All brokers of a network; holds no connection and can be pickled."""

    exact_units = 200
    """Unread messages of a queue up to which their bytes are added up; those of more are estimated."""

    last_pause_s = 0.05
    """The longest pause between two looks for new messages."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def check(self) -> None:
        """Raise NoNameServerError if no NameServer answers."""
        LOOP.wait(self._reads.brokers())

    def names(self) -> Iterable[str]:
        """Return the names of the brokers that are known so far."""
        return self._reads.table.brokers

    def knows(self, store: str) -> bool:
        """Return True if a store's name may be that of a broker: brokers come and go."""
        return store != ""

    def generation(self, store: str) -> int:
        """Return a number that grows whenever a broker may have been replaced."""
        return self._reads.table.failures

    def adopted(self, offset: StreamOffset) -> StreamOffset:
        """Return an offset of a read by path with the broker's name, if its store has none and there is one broker."""
        unnamed = {key.store for key in offset} == {""}
        brokers = LOOP.wait(self._reads.brokers()) if unnamed else []
        return offset.renamed(brokers[0]) if len(brokers) == 1 else offset

    def expect(self, keys: Iterable[QueueKey]) -> None:
        """Take note of queues that a checkpoint names: if their broker is away, the read waits for it."""
        self._reads.table.expect(keys)

    def topics(self) -> set[str]:
        """Return the topics that NameServers know, without those that brokers and clusters have for themselves."""
        return set(LOOP.wait(self._reads.topics())) - LOOP.wait(self._reads.own_topics())

    listed_topics = topics

    def snapshot(self, chooser: QueueChooser) -> dict[QueueKey, QueueBounds]:
        """Return the bounds of the chosen queues that ever had a message, each as its broker answers it."""
        return LOOP.wait(self._snapshot(self._reads, chooser))

    async def _snapshot(self, reads: BrokerReads, chooser: QueueChooser) -> dict[QueueKey, QueueBounds]:
        topics = chooser.named_topics()
        if topics is None:
            topics = [one for one in await reads.topics() if chooser.takes(QueueKey("", one, 0))]
            topics += [one for one in reads.table.topics() if one not in set(topics)]
        keys = chooser.chosen(await reads.queues(topics))
        found = await asyncio.gather(*(reads.bounds(key) for key in keys))
        return {key: QueueBounds(low, high) for key, (low, high) in zip(keys, found, strict=True) if high > 0}

    def configured(self, chooser: QueueChooser) -> list[QueueKey]:
        """Return the queues that brokers offer of the topics that a read names, also those without messages."""
        return LOOP.wait(self._reads.queues(chooser.named_topics() or []))

    def publish(self, store: str, group: str, offsets: Mapping[QueueKey, int]) -> None:
        """Commit next offsets of a broker's queues for a consumer group. Raises ClientError."""
        LOOP.wait(self._reads.commit(group, offsets))

    def may_lag(self, key: QueueKey) -> bool:
        """Return True if the queue's bounds are a slave's: messages that its master has may be missing."""
        return key in self._reads.lagging

    def position(self, key: QueueKey, next_offset: int, low: int) -> QueuePosition:
        """Return the position at `next_offset`, with the identity of the record before it if that record exists."""
        found = None if next_offset <= low else LOOP.wait(self._reads.record_at(key, next_offset - 1))
        if found is None:
            return QueuePosition(next_offset)
        return QueuePosition(next_offset, found.message.physical_offset, zlib.crc32(found.data))

    def is_unchanged(self, key: QueueKey, position: QueuePosition, low: int) -> bool:
        """Return True if the last record read is unchanged, or cannot be checked (any more, or at a slave)."""
        if position.phy_offset == NO_RECORD or position.next_offset <= low:
            return True
        found = self.position(key, position.next_offset, low)
        if found.phy_offset == NO_RECORD and self.may_lag(key):
            return True
        return (found.phy_offset, found.checksum) == (position.phy_offset, position.checksum)

    def record_sizes(self, key: QueueKey, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the bytes of each record of [start, end), (n,) int64; 0 where the broker does not answer them.

        A broker that refuses the request for units is asked for the first record: its size stands for all.
        """
        sizes = np.array(LOOP.wait(self._reads.sizes(key, start, end)), np.int64)
        if len(sizes) and not sizes.any() and (first := LOOP.wait(self._reads.record_at(key, start))) is not None:
            sizes[:] = first.message.store_size
        return sizes

    def offset_by_time(self, key: QueueKey, timestamp_ms: int) -> int:
        """Return the queue offset of the first message stored at or after `timestamp_ms`, or the queue's end."""
        return LOOP.wait(self._offset_by_time(self._reads, key, timestamp_ms))

    start_by_time = offset_by_time

    async def _offset_by_time(self, reads: BrokerReads, key: QueueKey, timestamp_ms: int) -> int:
        """Search by store times of single records: what request 29 answers differs between versions."""
        low, high = await reads.bounds(key)
        while low < high:
            middle = (low + high) // 2
            found = await reads.record_at(key, middle)
            if found is None or found.message.store_timestamp < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        return low

    def store_timestamp_ms(self, key: QueueKey, offset: int) -> int | None:
        """Return the store time of the message at `offset` in ms, or None if it cannot be read."""
        try:
            found = LOOP.wait(self._reads.record_at(key, offset))
        except ClientError:
            return None
        return None if found is None else found.message.store_timestamp

    def units_per_file(self, key: QueueKey) -> int:
        """Return 0: files are the broker's."""
        return 0

    def narrowed_by_keys(self, ranges: Sequence[QueueRange], keys: set[str]) -> list[QueueRange]:
        """Return the ranges as they are: the index of keys is the broker's."""
        return list(ranges)

    def batches(
        self,
        one: QueueRange,
        columns: Sequence[str],
        tags: str | None,
        condition: Condition | None,
        *,
        faults: ReadFaults,
        max_batch_bytes: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a range that `tags` and `condition` choose; `faults` decides about damaged ones.

        All messages are pulled and `tags` are compared here: a broker that selects drops damaged ones silently.
        Raises OffsetOutOfRangeError, if `faults` does, where the broker does not have the range any more.
        """
        key = one.key
        decoder = PulledRecords((key.store, key.topic, key.queue_id), columns, tags, faults, condition)
        position = one.start
        while position < one.end:
            try:
                for piece in self._pieces(key, position, one.end):
                    yield from decoder.batches(piece.data, piece.start, piece.end, skipped=piece.skipped)
                    position = piece.end
            except OffsetOutOfRangeError as error:
                following = min(error.min_offset, one.end) if position < error.min_offset else one.end
                decoder.removed(error, following)
                position = following

    def _pieces(self, key: QueueKey, start: int, end: int) -> Iterator[Piece]:
        reads = self._reads

        async def opened() -> PullWindow:
            await reads.queues([key.topic])
            if await reads.has_ranges(key):
                return PullWindow(
                    lambda start, end: reads.pull_range(key, start, end),
                    start,
                    end,
                    most_rows=RANGE_ROWS,
                    at_once=RANGES_AT_ONCE,
                )
            return PullWindow(
                lambda start, end: reads.pull(key, start, end), start, end, most_rows=PULL_ROWS, at_once=AT_ONCE
            )

        window = LOOP.wait(opened())
        try:
            while (piece := LOOP.wait(window.take())) is not None:
                yield piece
        finally:
            LOOP.wait(window.close())

    @property
    def _reads(self) -> BrokerReads:
        return open_reads(self._network)
