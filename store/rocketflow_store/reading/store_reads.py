"""The reads that a writing store and a read-only reader share: by offset, key, id, place and time, ranges as Arrow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.reading.faults import STRICT, SkipFaults
from rocketflow_store.reading.message_lookup import MAX_TIMESTAMP
from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.reading.queue_units import queue_units
from rocketflow_store.reading.range_read import RangeRead, Wanted
from rocketflow_store.reading.tag_query import TagQuery
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.model.message import ReceivedMessage
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.get_message_result import GetMessageResult
    from rocketflow_store.reading.range_read import Condition
    from rocketflow_store.reading.read_sources import ReadSources
    from rocketflow_store.reading.tag_query import TagQueryResult
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.offset_by_time import OffsetByTime


class StoreReads(ABC):
    """The public reads of an open store.

    Subclasses differ in `_reads`, and in overrides that state their reason.
    """

    path: Path
    _reads: ReadSources

    # -- differences of subclasses

    @property
    @abstractmethod
    def state(self) -> str:
        """State: "running" while a writer holds the lock, else "clean", or "unclean" after an unclean stop."""

    @property
    @abstractmethod
    def max_phy_offset(self) -> int:
        """Physical offset after the last record that may be read."""

    @abstractmethod
    def refresh(self) -> None:
        """Look for new and deleted files, topics and queues."""

    @abstractmethod
    def check_open(self) -> None:
        """Raise StoreClosedError if nothing may be read anymore."""

    def _reads_of(self, topic: str, queue_id: int) -> ReadSources:
        """Return the current sources of a queue."""
        return self._reads

    # -- the store

    @property
    def paths(self) -> StorePaths:
        """Paths of the store's files."""
        return self._reads.queues.paths

    @property
    def config(self) -> StoreConfig:
        """The settings, with the sizes that the store's files have."""
        return self._reads.config

    @property
    def index(self) -> IndexService:
        """The index files."""
        return self._reads.index

    @property
    def log(self) -> CommitLogView:
        """The CommitLog by physical offset."""
        return self._reads.log

    @property
    def log_files(self) -> list[MappedFile]:
        """The CommitLog files, oldest first."""
        return self._reads.files.files

    @property
    def min_phy_offset(self) -> int:
        """First byte of the log that still exists."""
        return self._reads.log.min_phy_offset

    def record_boundaries(self) -> UnitBoundaries:
        """Return the record boundaries that the queues name; for one thread."""
        return UnitBoundaries(self._reads.queues.plain, self.config.max_message_size)

    # -- queues

    def topics(self) -> list[str]:
        """Return the topics that have a queue, system topics included."""
        self.refresh()
        return sorted({topic for topic, _ in self._reads.queues.names()})

    def queues(self, topic: str) -> list[int]:
        """Return the queue ids of a topic."""
        self.refresh()
        return sorted({queue_id for name, queue_id in self._reads.queues.names() if name == topic})

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue's files, None if there are none."""
        return self._reads_of(topic, queue_id).queues.find(topic, queue_id)

    def find_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """Return the files of a BatchCQ topic's queue, None if there are none."""
        return self._reads_of(topic, queue_id).queues.find_batch(topic, queue_id)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the (min, max) queue offsets that may be read; both 0 for a queue that does not exist.

        If units or files of the queue are missing, the bounds are those that the store's writers recorded: reading the
        missing part raises.
        """
        return self._reads_of(topic, queue_id).queues.bounds(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the first queue offset that can be read."""
        return self.bounds(topic, queue_id)[0]

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset after the last message."""
        return self.bounds(topic, queue_id)[1]

    def listed_topics(self) -> set[str]:
        """Return the topics that `config/topics.json` lists, also without queues; raise StoreError if it is damaged."""
        return set(ConfigFiles(self.paths.config).topics.topics())

    # -- messages by queue offset

    def read_units(
        self, topic: str, queue_id: int, start: int, end: int, faults: ReadFaults = STRICT
    ) -> npt.NDArray[np.void]:
        """Return the ConsumeQueue units [start, end): fields phy_offset, msg_size, tags_code.

        A missing unit raises OffsetOutOfRangeError; with `faults=SkipFaults()` units of a missing file are zeros. For a
        BatchCQ topic each message has one: that of its record.
        """
        return queue_units(self._reads_of(topic, queue_id).queues, topic, queue_id, start, end, faults)

    def read(
        self,
        topic: str,
        queue_id: int,
        start: int,
        end: int,
        columns: Sequence[str] | None = None,
        tags: str | None = None,
        max_batch_bytes: int = 2 << 20,
        faults: ReadFaults = STRICT,
        condition: Condition | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read messages [start, end) of a queue as RecordBatches with just `columns`; memory is bounded by a batch.

        `tags` is compared by hash before the log is read and by name after. A message that cannot be returned (its unit
        is missing, or the record in its place is damaged or another one) raises CorruptRecordError, a range that is not
        within the queue's bounds OffsetOutOfRangeError; with `faults=SkipFaults()` such rows, and a removed part of the
        range, are skipped, logged and counted. If a record has a record CRC, no column is returned before that is
        verified; for one without (4.9 has none) the body's CRC is verified if `body` is requested, and other columns
        have none. Columns that only describe the record's place need no CRC.

        A body that cannot be decoded (a client called it compressed, and it is not) raises DamagedBodyError; with
        `faults=SkipFaults()` the message is skipped like those, and `on_bad_body="raw"` of either returns it with the
        body as it is stored and the reason as `bodyError`. `condition` returns the mask of the rows to return for a
        column `properties`. Neither it nor `tags` needs a body.
        """
        self.check_open()
        wanted = Wanted.of(columns, tags, max_batch_bytes, faults, condition)
        return self._batches(topic, queue_id, (start, end), wanted, faults)

    def _batches(
        self, topic: str, queue_id: int, offsets: tuple[int, int], wanted: Wanted, faults: ReadFaults
    ) -> Iterator[pa.RecordBatch]:
        reads = self._reads_of(topic, queue_id)
        identity = queue_identity(reads.config, topic, queue_id)
        reading = RangeRead(reads.log, reads.queues, identity, wanted, reads.tag_codes.of(topic), faults)
        yield from reading.batches(*offsets)

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """Return up to `max_count` messages from `offset`, within the transfer limits of RocketMQ's getMessage."""
        self.check_open()
        return self._reads_of(topic, queue_id).getter.get(topic, queue_id, offset, max_count, tags)

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> int:
        """Return a queue offset by store time; `boundary` names a `TimeBoundary` ("lower", "upper" or "nearest").

        A queue without messages returns its min offset; another boundary raises StoreConfigError. Records that cannot
        be read are skipped, and logged if one of them may have been the answer.
        """
        self.check_open()
        return self._reads_of(topic, queue_id).times.offset(topic, queue_id, timestamp_ms, boundary)

    def search_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> OffsetByTime:
        """Return the answer of `get_offset_in_queue_by_time`, and the unreadable records beside it."""
        self.check_open()
        return self._reads_of(topic, queue_id).times.search(topic, queue_id, timestamp_ms, boundary)

    # -- messages by place, id, key and TAGS

    def look_message_by_offset(self, phy_offset: int) -> ReceivedMessage | None:
        """Return the message whose record begins at `phy_offset`, None if there is none.

        Bytes in a message's body that look like a record do not count: its unit, or the log before it, must prove it.
        """
        self.check_open()
        return self._reads.lookup.at(phy_offset)

    def view_message(self, topic: str, msg_id: str) -> ReceivedMessage | None:
        """Return the message of `topic` with an offset message id, or else the newest with this UNIQ_KEY."""
        self.check_open()
        return self._reads.lookup.by_id(topic, msg_id)

    def query_message(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin: int = 0,
        end: int = MAX_TIMESTAMP,
        faults: ReadFaults | None = None,
    ) -> list[ReceivedMessage]:
        """Return messages of `topic` with `key` among KEYS or as UNIQ_KEY.

        They are the newest that were stored within [begin, end] ms. A message with the key that cannot be returned (a
        damaged record, or one that claims another message's place) is a fault, as is an index damage that may hide a
        message; without `faults` they are skipped and logged.
        """
        self.check_open()
        policy = SkipFaults() if faults is None else faults
        return self._reads.lookup.by_key(topic, key, max_count, begin, end, policy)

    def query_by_tags(
        self, topic: str, tags: str, max_count: int = 32, begin: int = 0, end: int = MAX_TIMESTAMP
    ) -> TagQueryResult:
        """Return the newest messages of `topic` that match a tag expression, stored within [begin, end] ms.

        Raises:
            InvalidFilterError: the expression matches every message.
        """
        self.check_open()
        query, reads = TagQuery.parse(topic, tags, begin, end), self._reads
        return reads.lookup.by_tags(query, max_count, reads.times, unclean=self.state == "unclean")
