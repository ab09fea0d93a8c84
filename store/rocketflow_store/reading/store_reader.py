"""Reading a store directory from outside: no lock, no repair, not a byte changed, beside a live writer.

What is shown is what the ConsumeQueues name and the log confirms: a record that is still being written, or a sink
commit that is not whole yet, is not there.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rocketflow_store.files import os_files
from rocketflow_store.files.lock import lock_holder
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.record_crc_range import readable_range
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.file_sizes import fitted_to
from rocketflow_store.metadata.layout.other_engines import warn_of_rocksdb_data
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_directory
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.model.errors import NotAStoreError, StoreError, StoreReplacedError
from rocketflow_store.model.results import StoreSnapshot
from rocketflow_store.reading.faults import STRICT
from rocketflow_store.reading.store_queries import StoreQueries
from rocketflow_store.reading.tag_query import tag_coverage
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.views.index.derived_profile import profile_of
from rocketflow_store.views.index.index_coverage import IndexCoverage, index_coverage
from rocketflow_store.views.index.index_service import IndexService
from rocketflow_store.views.index.tag_stretches import TagJudge, TagStretches
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.first_kept import first_place
from rocketflow_store.views.queues.promised_queues import PromisedQueues
from rocketflow_store.views.queues.queue_table import FileQueueTable
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.model.message import MessageExt
    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.get_message_result import GetMessageResult
    from rocketflow_store.reading.tag_query import TagQueryResult
    from rocketflow_store.views.queues.batch_consume_queue import BatchConsumeQueue
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.offset_by_time import OffsetByTime


class StoreReader:
    """A read-only view of the store at `path` that follows its writer.

    An existing empty directory is a store without topics. File sizes come from the store's files; pass `config` only
    where they cannot be told (an index with unusual proportions).
    """

    _log_files_type: ClassVar[type[MappedFileQueue]] = MappedFileQueue
    _believes_promises: ClassVar[bool] = True
    """Whether queues are taken to have what the store's writers recorded, or only what their units say."""

    def __init__(self, path: str | os.PathLike[str], config: StoreConfig | None = None) -> None:
        self.path = Path(path).absolute()
        check_directory(self.path, must_exist=True)
        self.paths = StorePaths.of(self.path, config)
        warn_of_rocksdb_data(self.path)
        if not self.paths.looks_like_store() and any(self.path.iterdir()):
            raise NotAStoreError(self.path, "holds no commitlog/; give the directory that storePathRootDir names")
        self.config = fitted_to(config or StoreConfig(), self.paths)
        self._files = self._log_files_type(
            self.paths.log_directories(), self.config.mapped_file_size_commit_log, write=False
        )
        self._files.refuse_other_sizes()
        self._log = CommitLogView(self._files, readable_range(self.paths))
        self._table = FileQueueTable(
            self.paths.consume_queue,
            self.config.mapped_file_size_consume_queue,
            self._log,
            write=False,
            past_gaps=True,
        )
        self.index = IndexService(
            self.paths.index,
            self.config.max_hash_slot_num,
            self.config.max_index_num,
            self.config.clock,
            write=False,
        )
        self._batch_table = BatchQueueTable(
            self.paths.batch_consume_queue, self.config.mapper_file_size_batch_consume_queue, write=False
        )
        self._queries = StoreQueries(self._log, self, self.index, self.config, lambda: self.max_phy_offset)
        self._promises = PromisedQueues(self.paths, self.config, self._files, self._table, self._batch_table)
        self._known_end, self._known_end_for = -1, -1
        self._meta_mark = self.paths.meta_mark()
        self._replacements = 0
        self._table.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all files."""
        self._table.close()
        self._batch_table.close()
        self._files.close()
        self.index.close()

    def refresh(self) -> None:
        """Look for files, topics and queues that came or went."""
        if len(self._files) == 0 or self.paths.meta_mark() != self._meta_mark:
            self._fit()
        self._look_at_log()
        self._table.refresh()
        self._look_at_promises()

    def _look_at_promises(self) -> None:
        """Take what the store's writers recorded of its queues; those that have no files are known too."""
        if not self._believes_promises or not self._promises.look():
            return
        self._table.expect_nothing()
        self._batch_table.refresh()
        floor = self._log.min_phy_offset
        for key in sorted(self._promises.plain.keys() - set(self._table.names())):
            if self._promises.holds(key, floor, -1):
                self._table.restore(*key)
        for key in sorted(self._promises.batch):
            if self._batch_table.find(*key) is None and self._promises.holds(key, floor, -1, batch=True):
                self._batch_table.add(*key)

    def _look_at_log(self) -> None:
        """Take the CommitLog files that the directory names now; where some were replaced, everything is taken anew."""
        self._files.refresh()
        if self._files.replacements != self._replacements:
            self._replacements = self._files.replacements
            self._known_end = -1
            self._table.reopen()

    def _fit(self) -> None:
        """Sizes may be told only now (the store was empty when it was opened), and a writer may use more paths."""
        self._meta_mark = self.paths.meta_mark()
        config, paths = fitted_to(self.config, self.paths), StorePaths.of(self.path, self.config)
        if config != self.config or paths != self.paths:
            path = self.path
            self.close()
            self.__init__(path, config)  # type: ignore[misc]

    @property
    def state(self) -> str:
        """ "running" while a writer holds the lock, else "clean", or "unclean" where the last stop was not orderly."""
        if self.lock_holder is not None:
            return "running"
        return "unclean" if self.paths.abort.exists() else "clean"

    @property
    def lock_holder(self) -> str | None:
        """Which process writes here now."""
        return lock_holder(self.paths.lock)

    @property
    def log_files(self) -> list[MappedFile]:
        """The CommitLog files, oldest first."""
        return self._files.files

    @property
    def log(self) -> CommitLogView:
        """The CommitLog by physical offset."""
        return self._log

    @property
    def commit_log_file_count(self) -> int:
        """How many CommitLog files there are."""
        return len(self._files)

    def record_size_at(self, phy_offset: int) -> int | None:
        """Size of the record that begins at `phy_offset`, None where none does."""
        return self._log.record_size_at(phy_offset)

    def units_match(
        self, topic: str, queue_id: int, first_queue_offset: int, units: npt.NDArray[np.void]
    ) -> npt.NDArray[np.bool_]:
        """Which of consecutive units point at a record that can be read and says it is that message."""
        identity = self._queries.identity(topic, queue_id)
        return self._log.matches(units, first_queue_offset, identity, unreadable=True)

    @property
    def checkpoint(self) -> CheckpointFields:
        """The checkpoint's fields, zero without the file."""
        try:
            return decode_checkpoint(os_files.read_file(self.paths.checkpoint))
        except OSError:
            return CheckpointFields()

    def topics(self) -> list[str]:
        """Topics that have a queue, system topics included."""
        self.refresh()
        return sorted({topic for topic, _ in [*self._table.names(), *self.batch_names()]})

    def listed_topics(self) -> set[str]:
        """Topics that `config/topics.json` lists, with or without a queue. StoreError where it is damaged."""
        return set(ConfigFiles(self.paths.config).topics.topics())

    def queues(self, topic: str) -> list[int]:
        """Queue ids of a topic."""
        self.refresh()
        return sorted({queue_id for name, queue_id in [*self._table.names(), *self.batch_names()] if name == topic})

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue's files."""
        found = self._table.find(topic, queue_id)
        if found is None:
            self.refresh()
            found = self._table.find(topic, queue_id)
        return found

    def record_boundaries(self) -> UnitBoundaries:
        """Return where the queues say that records begin; for one thread."""
        return UnitBoundaries(self._table.all, self.config.max_message_size)

    def find_batch(self, topic: str, queue_id: int) -> BatchConsumeQueue | None:
        """The files of a BatchCQ topic's queue."""
        found = self._batch_table.find(topic, queue_id)
        if found is None and self.paths.batch_consume_queue.is_dir():
            self._batch_table.refresh()
            found = self._batch_table.find(topic, queue_id)
        return found

    def batch_names(self) -> list[tuple[str, int]]:
        """(topic, queue id) of the queues of BatchCQ topics."""
        self._batch_table.refresh()
        return [(one.topic, one.queue_id) for one in self._batch_table.all()]

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) queue offsets; both 0 for a queue that does not exist.

        They are what the store's writers recorded, where units or files of the queue are missing: reading those raises.
        """
        batch_queue = self.find_batch(topic, queue_id)
        if batch_queue is not None:
            return self._batch_bounds(batch_queue, self._confirm_offset())
        return self._bounds(topic, queue_id, self._confirm_offset())

    def _bounds(self, topic: str, queue_id: int, confirm_offset: int | None) -> tuple[int, int]:
        queue = self.find(topic, queue_id)
        if queue is None:
            return 0, 0
        self._look_at_log()  # the newest units may point into a CommitLog file that is not known yet
        if self.paths.writer_mark() != self._promises.writer:
            self._look_at_promises()
        key = topic, queue_id
        end = self._table.end(topic, queue_id, confirm_offset)
        if end < self._promises.plain.get(key, 0) and self._is_lost(key, first_place(queue)):
            self._table.expect(topic, queue_id, self._promises.plain[key])
            end = self._table.end(topic, queue_id, confirm_offset)
        low = min(self._table.low(topic, queue_id, end), end)
        if queue.first_unit > 0 or queue.file_count == 0:
            low = self._low_of_lost_files(queue, low, end)
        return low, end

    def _is_lost(self, key: tuple[str, int], first_phy_offset: int, *, batch: bool = False) -> bool:
        """Return whether what was promised of a queue, and is not there, is lost indeed."""
        self._look_at_log()  # retention takes the log first, and a topic is noted before it is deleted
        self._look_at_promises()
        promised = self._promises.batch if batch else self._promises.plain
        return key in promised and self._promises.holds(key, self._log.min_phy_offset, first_phy_offset, batch=batch)

    def _low_of_lost_files(self, queue: ConsumeQueue, low: int, end: int) -> int:
        """Return `low`, or where the files begin that a queue lacks and that retention did not take."""
        key = queue.topic, queue.queue_id
        if not self._believes_promises:
            return low
        first = self._promises.first_unit(key, self._log.min_phy_offset, queue.UNIT_SIZE)
        if queue.file_count == 0:
            return min(max(first, 0), end)
        if 0 <= first < queue.first_unit:
            if self._is_lost(key, first_place(queue)):
                queue.refresh()
                first = self._promises.first_unit(key, self._log.min_phy_offset, queue.UNIT_SIZE)
                return first if 0 <= first < queue.first_unit else low
        elif first < 0 and low == queue.first_unit and low < end:
            return self._low_of_log(key, low)
        return low

    def _low_of_log(self, key: tuple[str, int], low: int) -> int:
        """Return `low`, or the queue offset of a message at the log's begin that the first file should have."""
        floor = self._log.min_phy_offset
        found, _ = self._promises.head(floor).plain.get(key, (low, low))
        if found >= low:
            return low
        self._look_at_log()
        return found if self._log.min_phy_offset == floor else low

    def _batch_bounds(self, queue: BatchConsumeQueue, confirm_offset: int | None) -> tuple[int, int]:
        low, high = queue.bounds(self.min_phy_offset, confirm_offset)
        if not self._believes_promises:
            return low, high
        if self.paths.writer_mark() != self._promises.writer:
            self._look_at_promises()
        key = queue.topic, queue.queue_id
        promised = self._promises.batch.get(key, 0)
        first = self._promises.first_unit(key, self._log.min_phy_offset, queue.UNIT_SIZE, batch=True)
        if high < promised or 0 <= first < queue.first_unit:
            place = queue.units(queue.first_unit, queue.first_unit + 1)
            if self._is_lost(key, int(place["phy_offset"][0]) if len(place) else -1, batch=True):
                first = self._promises.first_unit(key, self._log.min_phy_offset, queue.UNIT_SIZE, batch=True)
                low = 0 if high == 0 or 0 <= first < queue.first_unit else low
                high = max(high, self._promises.batch.get(key, 0))
        return low, high

    def _confirm_offset(self) -> int | None:
        confirmed = read_confirm(self.paths)
        return None if confirmed is None else confirmed.confirm_offset

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First queue offset that can be read."""
        return self.bounds(topic, queue_id)[0]

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset behind the last message."""
        return self.bounds(topic, queue_id)[1]

    def snapshot(self) -> StoreSnapshot:
        """Bounds of every queue at one instant: a sink commit is in it wholly or not at all."""
        confirm_offset = self._confirm_offset()
        self.refresh()
        queues = {key: self._bounds(*key, confirm_offset) for key in self._table.names()}
        for topic, queue_id in self.batch_names():
            batch_queue = self._batch_table.find(topic, queue_id)
            if batch_queue is not None:
                queues[topic, queue_id] = self._batch_bounds(batch_queue, confirm_offset)
        if confirm_offset is None and self._confirm_offset() is not None:
            return self.snapshot()
        return StoreSnapshot(queues, self.max_phy_offset)

    @property
    def min_phy_offset(self) -> int:
        """First byte of the log that is still there."""
        self._look_at_log()
        return self._log.min_phy_offset

    @property
    def max_phy_offset(self) -> int:
        """Physical offset behind the last record."""
        self._look_at_log()
        if len(self._files) == 0:
            return 0
        confirmed = self._confirm_offset()
        if confirmed is not None:
            return confirmed
        start, writer = self._known_end, self.paths.writer_mark()
        cut = writer != self._known_end_for  # a writer that started since may have cut the log
        if cut or start < self._log.min_phy_offset or self._files.find(start) is None:
            self._batch_table.refresh()
            start = max(self._table.max_unit_end(), self._batch_table.max_unit_end(), self._log.min_phy_offset)
        self._known_end, self._known_end_for = self._log.end_from(start), writer
        return self._known_end

    def index_coverage(self) -> IndexCoverage:
        """The part of the log in which the index names every key; none of it after an unclean stop."""
        floor, end = self.min_phy_offset, self.max_phy_offset
        if floor < end and self.state == "unclean":  # the system may have kept any of the index's pages
            return IndexCoverage(floor, floor, complete=False)
        self.index.refresh()
        return index_coverage(self.index.files, self._log, end)

    @property
    def index_complete(self) -> bool:
        """Whether the index names every key of every record in the log."""
        return self.index_coverage().complete

    def tag_coverage(self) -> IndexCoverage:
        """Return the newest part of the log in which the index names every message's TAGS."""
        end = self.max_phy_offset
        if self.state == "unclean":
            return IndexCoverage(end, end, complete=self.min_phy_offset >= end)
        return tag_coverage(self.paths, self.index, self._log, end)

    @property
    def profile(self) -> str:
        """The RocketMQ version whose derived files the store has, "5.3" or "5.5", as recorded or found in its files."""
        return profile_of(self.paths, self.config)

    def tag_stretches(self) -> TagStretches:
        """Return where messages with TAGS have an index entry for them, and where they have none."""
        floor, end = self.min_phy_offset, self.max_phy_offset
        self.index.refresh()
        for one in self.index.files:
            one.reload()
        return TagJudge(self.index.files, self._log).stretches(floor, end)

    def read_units(
        self, topic: str, queue_id: int, start: int, end: int, faults: ReadFaults = STRICT
    ) -> npt.NDArray[np.void]:
        """ConsumeQueue units of queue offsets [start, end): fields phy_offset, msg_size, tags_code.

        OffsetOutOfRangeError where one is not there; with `faults=SkipFaults()` those of a file that is gone are zeros.
        """
        return self._queries.units(topic, queue_id, start, end, faults)

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
    ) -> Iterator[pa.RecordBatch]:
        """Messages [start, end) of a queue as RecordBatches: see `StoreQueries.read`.

        Raises StoreReplacedError where files of the store are replaced before the last batch is out.
        """
        self._look_at_log()
        replacements = self._replacements
        batches = self._queries.read(topic, queue_id, start, end, columns, tags, max_batch_bytes, faults)
        try:
            for batch in batches:
                if self._replacements != replacements:
                    raise StoreReplacedError(self.path)
                yield batch
            self._look_at_log()
        except StoreError as error:
            self._look_at_log()
            if self._replacements != replacements:
                raise StoreReplacedError(self.path) from error
            raise
        if self._replacements != replacements:
            raise StoreReplacedError(self.path)

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """Up to `max_count` messages from `offset`, with RocketMQ's statuses and transfer limits."""
        return self._queries.get_message(topic, queue_id, offset, max_count, tags)

    def query_message(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin: int = 0,
        end: int = (1 << 63) - 1,
        faults: ReadFaults | None = None,
    ) -> list[MessageExt]:
        """Return messages of `topic` with `key`: see `StoreQueries.query_message`."""
        return self._queries.query_message(topic, key, max_count, begin, end, faults)

    def query_by_tags(
        self, topic: str, tags: str, max_count: int = 32, begin: int = 0, end: int = (1 << 63) - 1
    ) -> TagQueryResult:
        """Return the newest messages that match a tag expression: see `StoreQueries.query_by_tags`."""
        return self._queries.query_by_tags(topic, tags, max_count, begin, end)

    def view_message(self, topic: str, msg_id: str) -> MessageExt | None:
        """The message of `topic` with this offset message id or UNIQ_KEY."""
        return self._queries.view_message(topic, msg_id)

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None:
        """The message whose record begins at `phy_offset`."""
        return self._queries.look_message_by_offset(phy_offset)

    def record_checksum(self, phy_offset: int, size: int) -> int | None:
        """CRC-32 of the whole record of `size` bytes at `phy_offset`, None where no such record is there."""
        self._look_at_log()
        if self._log.record_size_at(phy_offset) != size:
            return None
        mapped = self._files.find(phy_offset)
        assert mapped is not None
        start = phy_offset - mapped.file_from_offset
        return zlib.crc32(mapped.bytes_of(start, start + size))

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> int:
        """Queue offset by store time: see `StoreQueries.get_offset_in_queue_by_time`."""
        return self._queries.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms, boundary)

    def search_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> OffsetByTime:
        """Return the queue offset by store time, and the unreadable records beside it: see `OffsetByTime`."""
        return self._queries.search_by_time(topic, queue_id, timestamp_ms, boundary)
