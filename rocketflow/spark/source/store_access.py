"""Stores as the source uses them: opened once a process, with queues of all stores under one kind of key.

Readers live in this module, not in Spark's reader objects: those are pickled for every task, while a Python worker
keeps its modules from task to task.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocketflow.spark.shared.store_locations import StoreLocation
from rocketflow.spark.source.filter_push_down import KeyCandidates, narrowed_by_keys
from rocketflow.spark.source.group_progress import publish_offsets
from rocketflow.spark.source.stream_offset import NO_RECORD, QueueKey, QueuePosition, StreamOffset
from rocketflow_store import NotAStoreError, SkipFaults, StoreConfig, StoreError, StoreReader
from rocketflow_store.spi.names import LMQ_PREFIX, PERM_INHERIT
from rocketflow_store.spi.reads import stored_at
from rocketflow_store.spi.tables import TopicsFile, topics_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow.spark.source.queue_choice import QueueChooser
    from rocketflow.spark.source.task_planning import QueueRange
    from rocketflow_store import ReadFaults
    from rocketflow_store.spi.reads import Condition

_MAX_KEY_HITS = 1 << 20
_MAX_CANDIDATES = 100_000
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
    topics: TopicsFile


_OPEN: dict[StoreLocation, _Open] = {}


def open_reader(location: StoreLocation) -> StoreReader:
    """Return the process's reader of the store; reopen it if its open files are no longer the store's.

    Only for Spark's Python workers, which have one thread: a replaced reader is closed at once.
    """
    known = _OPEN.get(location)
    if known is not None and known.identity == known.reader.identity():
        return known.reader
    reader = StoreReader(location.path, _config(location))
    identity = reader.identity()
    if known is not None:
        known.reader.close()
    generation = 0 if known is None else known.generation + 1
    _OPEN[location] = _Open(reader, identity, generation, topics_of(location.path))
    return reader


def _config(location: StoreLocation) -> StoreConfig:
    config = replace(location.store_config(), max_msgs_num_batch=_MAX_KEY_HITS)
    return replace(config, broker_name=location.name) if location.name else config


class SourceStores:
    """All stores of a read; holds no open file and can be pickled."""

    exact_units = 100_000
    """Unread messages of a queue up to which their bytes are added up; those of more are estimated."""

    last_pause_s = 0.008
    """The longest pause between two looks for new messages."""

    def __init__(self, locations: Sequence[StoreLocation]) -> None:
        self.locations = tuple(locations)
        self._by_name = {location.name: location for location in self.locations}

    def reader(self, store: str) -> StoreReader:
        """Return the reader of a store by its name."""
        return open_reader(self._by_name[store])

    def generation(self, store: str) -> int:
        """Return a number that grows whenever the store's directory or its writer may have been replaced."""
        location = self._by_name[store]
        open_reader(location)
        return _OPEN[location].generation

    def path(self, store: str) -> str:
        """Return the directory of a store by its name."""
        return self._by_name[store].path

    def names(self) -> Iterable[str]:
        """Return the names of all stores; only "" if the single store has no name."""
        return self._by_name.keys()

    def listed_topics(self) -> set[str]:
        """Return the topics of every store's `topics.json`, named as those of `topics`.

        Those that a broker has for itself and its cluster are omitted. Raises StoreError if the file is damaged.
        """
        found: set[str] = set()
        for name, location in self._by_name.items():
            open_reader(location)
            topics = _OPEN[location].topics.topics()
            own = {topic for topic, config in topics.items() if config.perm & PERM_INHERIT}
            own |= {f"{topic}_REPLY_TOPIC" for topic in own}
            found |= {QueueKey(name, topic, 0).qualified_topic for topic in topics.keys() - own}
        return found

    def topics(self) -> set[str]:
        """Return the topics that have a queue, as `topic` in an unnamed store and as `store/topic`."""
        return {
            QueueKey(name, topic, 0).qualified_topic for name in self._by_name for topic in self.reader(name).topics()
        }

    def snapshot(self, chooser: QueueChooser) -> dict[QueueKey, QueueBounds]:
        """Return the chosen queues' bounds; those of one store at one instant, so that a commit is in it or not."""
        found: dict[QueueKey, QueueBounds] = {}
        for name in self._by_name:
            for (topic, queue_id), bounds in self.reader(name).snapshot().queues.items():
                found[QueueKey(name, topic, queue_id)] = QueueBounds(*bounds)
        return {key: found[key] for key in chooser.chosen(found)}

    def configured(self, chooser: QueueChooser) -> list[QueueKey]:
        """Return the queues that `topics.json` gives to the topics that a read names, also those without messages.

        A file that cannot be read gives none; `listed_topics` raises for it.
        """
        found: list[QueueKey] = []
        for name, location in self._by_name.items():
            open_reader(location)
            for topic in chooser.named_topics() or ():
                with suppress(StoreError):
                    config = _OPEN[location].topics.get(topic)
                    found += [QueueKey(name, topic, one) for one in range(config.read_queue_nums if config else 0)]
        return found

    def check(self) -> None:
        """Open every store; raise NotAStoreError if a path is not a store or an empty directory."""
        for name in self.names():
            self.reader(name)
            path = self.path(name)
            if not os.listdir(path):
                why = "no topics: the directory is empty; give the directory that holds commitlog/"
                raise NotAStoreError(path, why)

    def knows(self, store: str) -> bool:
        """Return True if a store has this name."""
        return store in self._by_name

    def adopted(self, offset: StreamOffset) -> StreamOffset:
        """Return an offset of a read through a broker without the broker's name, if the only store here has none."""
        others = {key.store for key in offset} - {""}
        return offset.renamed("") if self._by_name.keys() == {""} and len(others) == 1 else offset

    def expect(self, keys: Iterable[QueueKey]) -> None:
        """Do nothing: a store is there or not."""

    def publish(self, store: str, group: str, offsets: Mapping[QueueKey, int]) -> None:
        """Publish next offsets of a store's queues as those of a consumer group; raises as `publish_offsets`."""
        publish_offsets(Path(self.path(store)), group, offsets)

    def may_lag(self, key: QueueKey) -> bool:
        """Return False: a store has all its messages."""
        return False

    def position(self, key: QueueKey, next_offset: int, low: int) -> QueuePosition:
        """Return the position at `next_offset`, with the identity of the record before it if that record exists."""
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
        """Return True if the last record read is unchanged, or can no longer be checked."""
        if position.phy_offset == NO_RECORD or position.next_offset <= low:
            return True
        found = self.position(key, position.next_offset, low)
        return (found.phy_offset, found.checksum) == (position.phy_offset, position.checksum)

    def record_sizes(self, key: QueueKey, start: int, end: int) -> npt.NDArray[np.int64]:
        """Return the bytes of each record of [start, end), (n,) int64; 0 if a queue file is missing."""
        units = self.reader(key.store).read_units(key.topic, key.queue_id, start, end, faults=SkipFaults())
        return units["msg_size"].astype(np.int64)

    def offset_by_time(self, key: QueueKey, timestamp_ms: int) -> int:
        """Return the queue offset of the first message stored at or after `timestamp_ms`, or the queue's end."""
        return self.reader(key.store).search_by_time(key.topic, key.queue_id, timestamp_ms).offset

    def start_by_time(self, key: QueueKey, timestamp_ms: int) -> int:
        """Return the offset at which a read of messages stored at or after `timestamp_ms` starts.

        Unreadable records right before the first match may be later than `timestamp_ms`: the read starts with them, and
        reports them as lost.
        """
        found = self.reader(key.store).search_by_time(key.topic, key.queue_id, timestamp_ms)
        return min(found.unreadable[0], found.offset) if found.unreadable[0] < found.unreadable[1] else found.offset

    def units_per_file(self, key: QueueKey) -> int:
        """Return the number of units of one ConsumeQueue file of the queue; 0 for a queue that does not exist."""
        queue = self.reader(key.store).find(key.topic, key.queue_id)
        return queue.units_per_file if queue is not None else 0

    def store_timestamp_ms(self, key: QueueKey, offset: int) -> int | None:
        """Return the store time of the message at `offset` in ms, or None if it cannot be read."""
        return stored_at(self.reader(key.store), key.topic, key.queue_id, offset)

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
        """Return the messages of a range that `tags` and `condition` choose; `faults` decides about damaged ones.

        Raises OffsetOutOfRangeError where the store does not have the range any more.
        """
        key = one.key
        return self.reader(key.store).read(
            *(key.topic, key.queue_id, one.start, one.end, columns),
            tags=tags,
            max_batch_bytes=max_batch_bytes,
            faults=faults,
            condition=condition,
        )

    def narrowed_by_keys(self, ranges: Sequence[QueueRange], keys: set[str]) -> list[QueueRange]:
        """Return the parts of ranges that can hold messages with the keys, by the stores' index."""
        return narrowed_by_keys(ranges, self._key_candidates(keys, ranges), self.first_offset_at)

    def _key_candidates(self, keys: set[str], ranges: Sequence[QueueRange]) -> dict[str, KeyCandidates]:
        """Return the messages that each store's key index names; a store with an unreliable index is omitted."""
        found: dict[str, KeyCandidates] = {}
        for name in {one.key.store for one in ranges}:
            topics = {one.key.topic for one in ranges if one.key.store == name}
            covered = self.index_coverage(name)
            if covered is None or any(topic.startswith(LMQ_PREFIX) for topic in topics):
                continue
            candidates = KeyCandidates(*covered)
            for topic, key in product(sorted(topics), sorted(keys)):
                places = self.offsets_of_key(name, topic, key, _MAX_CANDIDATES)
                if places is None:
                    break
                for queue_id, offset in places:
                    candidates.offsets.setdefault(QueueKey(name, topic, queue_id), []).append(offset)
            else:
                found[name] = candidates
        return found

    def index_coverage(self, store: str) -> tuple[int, int] | None:
        """Return the physical range [start, end) that the key index covers, or None if the index is unreliable."""
        reader = self.reader(store)
        if reader.state != "clean":
            return None
        covered = reader.index_coverage()
        if covered.begin_phy_offset >= covered.end_phy_offset:
            return None
        return covered.begin_phy_offset, covered.end_phy_offset

    def offsets_of_key(self, store: str, topic: str, key: str, max_count: int) -> list[tuple[int, int]] | None:
        """Return (queue id, queue offset) of the messages of a topic that the index names for a key.

        Return None if the index has `max_count` or more entries that may match (not all are read), or if an entry is
        damaged or its record cannot be read.
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
        """Return the first queue offset whose record starts at or after `phy_offset`, or the queue's end."""
        reader = self.reader(key.store)
        low, high = reader.bounds(key.topic, key.queue_id)
        while low < high:
            middle = (low + high) // 2
            if int(reader.read_units(key.topic, key.queue_id, middle, middle + 1)["phy_offset"][0]) >= phy_offset:
                high = middle
            else:
                low = middle + 1
        return low
