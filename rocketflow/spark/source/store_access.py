"""Stores as the source sees them: opened once a process, looked at as queues under one kind of key.

Readers live in this module, not in Spark's reader objects: those are pickled for every task, while a Python worker
keeps its modules from task to task.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocketflow.spark.shared.store_locations import StoreLocation
from rocketflow.spark.source.stream_offset import NO_RECORD, QueueKey, QueuePosition
from rocketflow_store import SkipFaults, StoreConfig, StoreReader
from rocketflow_store.spi.reads import stored_at

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

_MAX_KEY_HITS = 1 << 20
_FOREVER_MS = (1 << 63) - 1


class QueueBounds(NamedTuple):
    """Queue offsets [low, high) that can be read."""

    low: int
    high: int


@dataclass(slots=True)
class _Open:
    reader: StoreReader
    identity: tuple[object, ...]
    generation: int


_OPEN: dict[StoreLocation, _Open] = {}


def open_reader(location: StoreLocation) -> StoreReader:
    """The store's reader in this process; opened anew where the files it holds are not the store's any more.

    Of Spark's Python workers alone, which have one thread: the one that was known is closed, whoever reads it.
    """
    known = _OPEN.get(location)
    if known is not None and known.identity == known.reader.identity():
        return known.reader
    reader = StoreReader(location.path, _config(location))
    identity = reader.identity()
    if known is not None:
        known.reader.close()
    _OPEN[location] = _Open(reader, identity, 0 if known is None else known.generation + 1)
    return reader


def _config(location: StoreLocation) -> StoreConfig:
    config = replace(location.store_config(), max_msgs_num_batch=_MAX_KEY_HITS)
    return replace(config, broker_name=location.name) if location.name else config


class SourceStores:
    """All stores of a read. Holds no open file itself and can be pickled."""

    def __init__(self, locations: Sequence[StoreLocation]) -> None:
        self.locations = tuple(locations)
        self._by_name = {location.name: location for location in self.locations}

    def reader(self, store: str) -> StoreReader:
        """The reader of a store by its name."""
        return open_reader(self._by_name[store])

    def generation(self, store: str) -> int:
        """Rises whenever the store's directory, or its writer, may have become another one."""
        location = self._by_name[store]
        open_reader(location)
        return _OPEN[location].generation

    def path(self, store: str) -> str:
        """The directory of a store by its name."""
        return self._by_name[store].path

    def names(self) -> Iterable[str]:
        """Names of all stores; "" alone where the only one has no name."""
        return self._by_name.keys()

    def listed_topics(self) -> set[str]:
        """Return the topics of every store's `topics.json`, as `topic` and as `store/topic`."""
        listed: set[str] = set()
        for name in self._by_name:
            for topic in self.reader(name).listed_topics():
                listed |= {topic, f"{name}/{topic}"}
        return listed

    def snapshot(self) -> dict[QueueKey, QueueBounds]:
        """Bounds of every queue; of one store at one instant, so that a sink's commit is in it whole or not at all."""
        found: dict[QueueKey, QueueBounds] = {}
        for name in self._by_name:
            for (topic, queue_id), bounds in self.reader(name).snapshot().queues.items():
                found[QueueKey(name, topic, queue_id)] = QueueBounds(*bounds)
        return found

    def position(self, key: QueueKey, next_offset: int, low: int) -> QueuePosition:
        """The position at `next_offset`, with the identity of the record before it if that is still there."""
        if next_offset <= low:
            return QueuePosition(next_offset)
        reader = self.reader(key.store)
        unit = reader.read_units(key.topic, key.queue_id, next_offset - 1, next_offset, faults=SkipFaults())
        phy_offset, size = int(unit["phy_offset"][0]), int(unit["msg_size"][0])
        checksum = reader.record_checksum(phy_offset, size)
        if checksum is None:
            return QueuePosition(next_offset)
        return QueuePosition(next_offset, phy_offset, checksum)

    def is_unchanged(self, key: QueueKey, position: QueuePosition, low: int) -> bool:
        """Whether the last record read is still the same; True where it cannot be asked any more."""
        if position.phy_offset == NO_RECORD or position.next_offset <= low:
            return True
        found = self.position(key, position.next_offset, low)
        return (found.phy_offset, found.checksum) == (position.phy_offset, position.checksum)

    def record_sizes(self, key: QueueKey, start: int, end: int) -> npt.NDArray[np.int64]:
        """Bytes of each record of [start, end); 0 where a queue file is gone."""
        units = self.reader(key.store).read_units(key.topic, key.queue_id, start, end, faults=SkipFaults())
        return units["msg_size"].astype(np.int64)

    def offset_by_time(self, key: QueueKey, timestamp_ms: int) -> int:
        """Return the queue offset of the first message stored at or after `timestamp_ms`, or the queue's end."""
        return self.reader(key.store).search_by_time(key.topic, key.queue_id, timestamp_ms).offset

    def start_by_time(self, key: QueueKey, timestamp_ms: int) -> int:
        """Return where a read of what was stored at or after `timestamp_ms` begins.

        Records that cannot be read, right before the first that was stored then, may be later ones: the read begins
        with them, so that it reports them as lost.
        """
        found = self.reader(key.store).search_by_time(key.topic, key.queue_id, timestamp_ms)
        return min(found.unreadable[0], found.offset) if found.unreadable[0] < found.unreadable[1] else found.offset

    def units_per_file(self, key: QueueKey) -> int:
        """Units of one ConsumeQueue file of the queue; 0 for a queue that does not exist."""
        queue = self.reader(key.store).find(key.topic, key.queue_id)
        return queue.units_per_file if queue is not None else 0

    def store_timestamp_ms(self, key: QueueKey, offset: int) -> int | None:
        """When the message at `offset` was stored; None where it cannot be read."""
        return stored_at(self.reader(key.store), key.topic, key.queue_id, offset)

    def index_coverage(self, store: str) -> tuple[int, int] | None:
        """Physical range [start, end) that the key index speaks for; None where it cannot be relied on."""
        reader = self.reader(store)
        if reader.state != "clean":
            return None
        covered = reader.index_coverage()
        if covered.begin_phy_offset >= covered.end_phy_offset:
            return None
        return covered.begin_phy_offset, covered.end_phy_offset

    def offsets_of_key(self, store: str, topic: str, key: str, max_count: int) -> list[tuple[int, int]] | None:
        """(queue id, queue offset) of the messages of a topic that the index names for a key.

        None where it has `max_count` entries or more that may be meant (not all of them are looked at), and where an
        entry is damaged or its record cannot be read.
        """
        reader = self.reader(store)
        found: dict[tuple[int, int], None] = {}
        damages: list[str] = []

        def damaged(file: Path, number: int, why: str) -> None:
            damages.append(f"{file}, entry {number}: {why}")

        entries = list(islice(reader.index.walk(topic, key, 0, _FOREVER_MS, damaged), max_count))
        if damages or len(entries) >= max_count:
            return None
        for phy_offset in entries:
            message = reader.look_message_by_offset(phy_offset)
            if message is None and phy_offset >= reader.min_phy_offset:
                return None
            if message is not None and message.topic == topic:
                found[message.queue_id, message.queue_offset] = None
        return list(found)

    def first_offset_at(self, key: QueueKey, phy_offset: int) -> int:
        """First queue offset whose record begins at or behind `phy_offset`; the queue's end where none does."""
        reader = self.reader(key.store)
        low, high = reader.bounds(key.topic, key.queue_id)
        while low < high:
            middle = (low + high) // 2
            if int(reader.read_units(key.topic, key.queue_id, middle, middle + 1)["phy_offset"][0]) >= phy_offset:
                high = middle
            else:
                low = middle + 1
        return low
