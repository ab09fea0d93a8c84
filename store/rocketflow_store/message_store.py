"""The writing store: open (lock, recover), put, read, close. The parts are elsewhere; this is where they meet.

Threads: any number of callers; puts are serialised by the put lock, syncs are shared (`flush.GroupFlush`), dispatch
follows the confirmed offset under the dispatch lock. One daemon thread flushes in the background.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rocketflow_store.allocate_ahead import AllocateMappedFileService
from rocketflow_store.chunk_append import ChunkPlacer, ChunkWriter, ParallelWriter, PlacedChunk
from rocketflow_store.clean_service import CleanResult, CleanService
from rocketflow_store.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.commit_log import CommitLog
from rocketflow_store.config import StoreConfig, StorePaths, check_writable_directory
from rocketflow_store.config_files import ConfigFiles
from rocketflow_store.confirm import ConfirmFile, read_confirm
from rocketflow_store.dispatch import Dispatcher, DispatchRow, DispatchRows, deliver_time, gather_rows
from rocketflow_store.errors import (
    FileAllocationTimeoutError,
    MessageRejectedError,
    StoreClosedError,
    StoreError,
    StoreFencedError,
    StoreFullError,
)
from rocketflow_store.files import os_files
from rocketflow_store.files.lock import DirectoryLock
from rocketflow_store.flush import PAGE_BYTES, GroupFlush, ThoroughSchedule, flush_due
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.format.message_id import encode_host, offset_msg_id
from rocketflow_store.format.properties import decode_properties
from rocketflow_store.format.record import RecordFields, encode_record, record_size
from rocketflow_store.index_service import IndexService
from rocketflow_store.java_compat import string_hash
from rocketflow_store.log_view import CommitLogView
from rocketflow_store.mapped_file_queue import MappedFileQueue
from rocketflow_store.message import (
    PROPERTY_DELAY,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    SCHEDULE_TOPIC,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
    Message,
    MessageExt,
)
from rocketflow_store.message_encoder import MessageEncoder
from rocketflow_store.odd_files import make_last_files_whole
from rocketflow_store.queue_offsets import QueueOffsets
from rocketflow_store.queue_table import FileQueueTable
from rocketflow_store.recovery import Recovery, RecoveryResult
from rocketflow_store.remembered_commits import remember_commits
from rocketflow_store.results import AppendBatchResult, GetMessageResult, PutMessageResult
from rocketflow_store.service_thread import ServiceThread
from rocketflow_store.statistics import SLOW_PUT_NS, StoreStatistics
from rocketflow_store.status import FlushDiskType, PutMessageStatus
from rocketflow_store.store_meta import StoreMeta
from rocketflow_store.store_queries import StoreQueries
from rocketflow_store.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.columnar.encode import EncodedChunk
    from rocketflow_store.consume_queue import ConsumeQueue

_FRONTIER_INTERVAL_MS: Final = 10_000
_FRONTIER_BYTES: Final = 512 << 20
_COMMIT_TIMEOUT_S: Final = 24 * 3600.0
_FIRST_CLEAN_S: Final = 60.0
_GATHER_FROM: Final = 24
"""From this many single rows on, columns are quicker than a loop."""


class MessageStore:
    """A store directory open for writing; one at a time, on this machine and in this process."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], config: StoreConfig | None = None) -> Self:
        """Lock the directory, create or recover the store in it, and start. Use as a context manager.

        File sizes of an existing store are taken from its files. Raises StoreLockedError, NotAStoreError,
        StoreVersionError or StoreAccessError before anything is changed.
        """
        return cls(Path(path), config or StoreConfig())

    def __init__(self, path: Path, config: StoreConfig) -> None:
        started = time.monotonic()
        self.path, self.paths = path, StorePaths(path)
        check_writable_directory(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise os_files.access_error(path, error) from error
        self._lock = DirectoryLock(self.paths.lock)
        try:
            self._open(config)
        except BaseException:
            self._lock.release()
            raise
        self.recovery.seconds = time.monotonic() - started

    def _open(self, config: StoreConfig) -> None:
        paths = self.paths
        self.config = config = config.fitted_to(paths)
        self.meta = StoreMeta.load_or_create(paths, config)
        for directory in (paths.commit_log, paths.consume_queue, paths.rocketflow, paths.config):
            directory.mkdir(exist_ok=True)
        self._allocator = self._make_allocator(config)
        if paths.abort.exists():
            make_last_files_whole(paths, config)
        self._files = MappedFileQueue(
            paths.commit_log, config.mapped_file_size_commit_log, write=True, allocator=self._allocator
        )
        self._log = CommitLogView(self._files)
        self._queues = FileQueueTable(paths.consume_queue, config.mapped_file_size_consume_queue, self._log, write=True)
        self._queues.refresh()
        self.index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=True)
        self._dispatcher = Dispatcher(self._queues, self.index if config.message_index_enable else None)
        self._checkpoint = self._read_checkpoint()
        self.config_files = ConfigFiles(paths.config, config.clock)
        self._topics = TopicTable(self.config_files.topics, config.default_topic_queue_nums)
        self._encoder = MessageEncoder(config)
        self._put_lock = threading.RLock()
        self._dispatch_lock = threading.RLock()
        self._pending: deque[tuple[int, DispatchRow | DispatchRows]] = deque()
        self._closed = False
        self._statistics = StoreStatistics(config.clock.now_ms())
        self._next_queue: dict[str, int] = {}
        self._store_timestamp = 0
        self.recovery = self._recover()
        end = self.recovery.truncated_to
        self._commit_log = CommitLog(self._files, end)
        self._flush = GroupFlush(self._commit_log, self.path)
        self._offsets = QueueOffsets(self._queues.end)
        self._confirmed = end
        self._mark_open()
        sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._confirm_file = ConfirmFile(paths, end, end, synced=sync)
        self._frontier = end
        self._dispatched_timestamp = self._store_timestamp
        self._flush_lock = threading.Lock()
        self._queries = StoreQueries(self._log, self, self.index, config, lambda: self.max_phy_offset)
        self._clean = CleanService(
            paths,
            self._files,
            self._queues,
            self.index,
            config,
            removable_to=lambda: min(self._confirmed, self._commit_log.flushed_offset),
            dispatch_lock=self._dispatch_lock,
            before_removal=self._before_removal,
        )
        self._clean_lock = threading.Lock()
        self._clean_thread = ServiceThread(
            "clean-resource", self._clean_step, config.clean_resource_interval / 1000, first_s=_FIRST_CLEAN_S
        )
        self._log_schedule = ThoroughSchedule(
            config.flush_commit_log_least_pages, config.flush_commit_log_thorough_interval
        )
        self._queue_schedule = ThoroughSchedule(
            config.flush_consume_queue_least_pages,
            min(config.flush_consume_queue_thorough_interval, _FRONTIER_INTERVAL_MS),
        )
        self._periodic = ServiceThread("flush-real-time", self._flush_step, config.flush_interval_commit_log / 1000)
        self._queue_flush = ServiceThread(
            "flush-consume-queue", self._flush_queues_step, config.flush_interval_consume_queue / 1000
        )

    # -- opening and closing

    def _make_allocator(self, config: StoreConfig) -> AllocateMappedFileService:
        sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        allocator = AllocateMappedFileService(
            self.paths.commit_log,
            self.paths.allocating,
            config.mapped_file_size_commit_log,
            warm=config.warm_maped_file_enable,
            warm_sync_bytes=config.flush_least_pages_when_warm_maped_file * PAGE_BYTES if sync else 0,
        )
        allocator.discard_left_overs()
        return allocator

    def _read_checkpoint(self) -> CheckpointFields:
        try:
            return decode_checkpoint(self.paths.checkpoint.read_bytes())
        except FileNotFoundError:
            return CheckpointFields()

    def _recover(self) -> RecoveryResult:
        abort_found = self.paths.abort.exists()
        recovery = Recovery(
            self.paths,
            self._files,
            self._log,
            self._queues,
            self.config.delay_levels_ms,
            check_crc=self.config.check_crc_on_recover,
        )
        confirmed = read_confirm(self.paths) if abort_found else None
        start = recovery.scan_start(abort_found, confirmed)
        end = recovery.find_end(start, foreign=abort_found and confirmed is None)
        truncated_from, truncated_to = end.offset, end.offset
        if abort_found:
            truncated_from, truncated_to = recovery.cut(end)
            recovery.cut_queues(end.offset)
            self.index.recover(start)
        elif end.offset > start or recovery.written_end(end.offset) > end.offset:
            truncated_from, truncated_to = recovery.cut(end)
        dispatched = recovery.dispatch(start, end.offset, self._dispatcher)
        if abort_found or dispatched:
            self._queues.forget()
            self._sync_everything()
            self._queues.sync_directories()
        self._store_timestamp = self._last_store_timestamp()
        if end.offset > start or abort_found:
            self._checkpoint.confirm_phy_offset = max(end.offset, 0)
        return RecoveryResult(abort_found, start, truncated_from, truncated_to, dispatched, 0.0, recovery.quarantined)

    def _last_store_timestamp(self) -> int:
        """Store time of the newest message of any queue: later ones must not fall behind it."""
        newest = 0
        for queue in self._queues.all():
            end = self._queues.end(queue.topic, queue.queue_id)
            if end > queue.first_unit:
                newest = max(newest, int(self._log.store_timestamps(queue.units(end - 1, end))[0]))
        return newest

    def _mark_open(self) -> None:
        """Leave the `abort` file that says: if you find me, the stop was not orderly."""
        os_files.write_atomically(self.paths.abort, str(os.getpid()).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Orderly stop: sync log, queues, index, checkpoint; then, and only then, remove `abort`."""
        with self._put_lock:
            if self._closed:
                return
            self._closed = True
        self._periodic.stop()
        self._queue_flush.stop()
        self._clean_thread.stop()
        self._allocator.stop()
        clean = self._flush.fence is None
        try:
            if clean:
                self._flush.flush_to(self._commit_log.wrote_offset, self.config.sync_flush_timeout / 1000)
                self._dispatch_confirmed()
                self._sync_everything()
                self._queues.sync_directories()
                self._checkpoint.physic_msg_timestamp = self._checkpoint.logics_msg_timestamp = self._store_timestamp
                self._write_checkpoint()
        except StoreError:
            clean = False
            raise
        finally:
            self._confirm_file.close(remove=clean)
            if clean:
                os_files.remove_file(self.paths.abort)
                os_files.sync_directory(self.path)
            self._queues.close()
            self.index.close()
            self._files.close()
            self._lock.release()

    def _sync_everything(self) -> None:
        for mapped in self._files.files[-2:]:
            mapped.sync()
        for queue in self._queues.all():
            queue.sync()
        self.index.sync()

    def _write_checkpoint(self) -> None:
        fields = self._checkpoint
        fields.index_msg_timestamp = max(fields.index_msg_timestamp, self.index.full_end_timestamp)
        os_files.write_atomically(self.paths.checkpoint, fields.encode())

    def _flush_step(self) -> None:
        """FlushRealTimeService: sync the log, where enough of it waits or time is up."""
        now_ms = self.config.clock.now_ms()
        self._statistics.sample(now_ms)
        least_pages = self._log_schedule.least_pages(now_ms)
        if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            least_pages = 0  # somebody may wait for it
        commit_log = self._commit_log
        end, size = commit_log.wrote_offset, self.config.mapped_file_size_commit_log
        if flush_due(end, commit_log.flushed_offset, least_pages, size):
            self._flush_log_to(end)
            self._dispatch_confirmed()

    def _flush_log_to(self, offset: int) -> None:
        """Sync the log; its time in the checkpoint is that of a record that was there before."""
        timestamp = self._dispatched_timestamp
        self._flush.flush_to(offset, self.config.sync_flush_timeout / 1000)
        self._checkpoint.physic_msg_timestamp = max(timestamp, self._checkpoint.physic_msg_timestamp)

    def _flush_queues_step(self) -> None:
        """FlushConsumeQueueService: sync queues of which enough waits; when time is up everything, with checkpoint."""
        least_pages = self._queue_schedule.least_pages(self.config.clock.now_ms())
        behind = self._confirmed - self._frontier
        if behind and (least_pages == 0 or behind > _FRONTIER_BYTES):
            self.flush()
            return
        with self._flush_lock:
            self._fencing(lambda: [queue.sync(least_pages * PAGE_BYTES) for queue in self._queues.all()])

    def flush(self) -> None:
        """Make everything durable: log, queues, index, checkpoint, in this order; recovery will begin behind it."""
        self._check_open()
        self._flush_log_to(self._commit_log.wrote_offset)
        with self._flush_lock:
            with self._dispatch_lock:
                self._dispatch_confirmed()
                target = min(self._confirmed, self._commit_log.flushed_offset)
                timestamp = self._dispatched_timestamp
            self._fencing(self._sync_derived)
            self._checkpoint.logics_msg_timestamp = max(timestamp, self._checkpoint.logics_msg_timestamp)
            self._write_checkpoint()
            self._confirm_file.durable(target)
            self._frontier = target

    def _sync_derived(self) -> None:
        for queue in self._queues.all():
            queue.sync()
        self._queues.sync_directories()
        with self._dispatch_lock:  # the newest index file may be about to be another
            self.index.sync()

    def _fencing(self, sync: Callable[[], object]) -> None:
        """Fence the store where a sync of derived files fails: no later one can be believed."""
        try:
            sync()
        except StoreFencedError as error:
            self._flush.fence = error
            raise

    def _before_removal(self, min_phy_offset: int) -> None:
        low, high = self.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        remember_commits(self.paths, self._queries, low, high, min_phy_offset)

    def _clean_step(self) -> None:
        with self._clean_lock:
            self._clean.step(self._clean_thread.pause)

    def clean(self) -> CleanResult:
        """Delete every log file whose `fileReservedTime` is over, whatever the hour, and what pointed at it.

        Where the disk is used beyond `diskSpaceCleanForciblyRatio` the oldest files go whatever their age.
        """
        self.flush()
        result = CleanResult()
        with self._clean_lock:
            while True:
                done = self._clean.step(manual=True)
                result.add(done)
                if not done.log_files:
                    return result

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError(self.path)

    # -- putting

    def put_message(self, message: Message) -> PutMessageResult:
        """Store one message. A refusal is a status, not an exception, and nothing of it is stored."""
        return self.put_messages((message,))[0]

    def put_messages(self, messages: Iterable[Message]) -> list[PutMessageResult]:
        """Store messages in order with one flush for all; each has its own outcome."""
        self._check_open()
        began_ns = time.perf_counter_ns()
        results = self._acknowledge([self._put_one(message) for message in messages])
        elapsed_ns = time.perf_counter_ns() - began_ns
        if elapsed_ns >= SLOW_PUT_NS:
            self._statistics.slow_put(elapsed_ns, len(results))
        return results

    def put_record(self, fields: RecordFields) -> PutMessageResult:
        """Store a record whose fields are given byte for byte (a replica, a restore, a test)."""
        self._check_open()
        with self._put_lock:
            result = self._append_fields(fields, decode_properties(fields.properties), self._tick())
        return self._acknowledge([result])[0]

    def _acknowledge(self, results: list[PutMessageResult]) -> list[PutMessageResult]:
        """Wait for the flush that the mode promises, then let readers see the messages."""
        if not any(result.stored for result in results):
            return results
        if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            end = self._commit_log.wrote_offset
            try:
                in_time = self._flush.flush_to(end, self.config.sync_flush_timeout / 1000)
            except StoreFencedError as error:
                self._statistics.late(results)
                return [_with_status(one, PutMessageStatus.FLUSH_DISK_TIMEOUT, str(error)) for one in results]
            if not in_time:
                self._statistics.late(results)
                late = "the sync took longer than syncFlushTimeout; the message may be stored"
                return [_with_status(one, PutMessageStatus.FLUSH_DISK_TIMEOUT, late) for one in results]
        self._dispatch_confirmed()
        return results

    def _check_writable(self) -> None:
        """Raise where a sync failed or the disk is too full."""
        self._flush.check()
        if self._clean.disk_full:
            limit = self.config.disk_space_warning_level_ratio
            raise StoreFullError(self.path, f"the disk is used beyond diskSpaceWarningLevelRatio ({limit} %)")

    def _put_one(self, message: Message) -> PutMessageResult:
        statistics = self._statistics
        if statistics.lock_began_ms and statistics.page_cache_busy(
            self.config.clock.now_ms(), self.config.os_page_cache_busy_time_out_mills
        ):
            return self._refuse(message.topic, PutMessageStatus.OS_PAGE_CACHE_BUSY, "another put does not come back")
        with self._put_lock:
            try:
                if self._flush.fence is not None or self._clean.disk_full:
                    self._check_writable()
                now_ms = statistics.lock_began_ms = self._tick()
                queue_id = self._choose_queue(message)
                fields, properties = self._encoder.encode(message, queue_id, now_ms)
                return self._append_fields(fields, properties, now_ms)
            except MessageRejectedError as error:
                return self._refuse(message.topic, error.status, error.why)
            except FileAllocationTimeoutError as error:
                return self._refuse(message.topic, PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))
            except (StoreFencedError, StoreFullError) as error:
                if isinstance(error, StoreFencedError):
                    self._flush.fence = error
                return self._refuse(message.topic, PutMessageStatus.SERVICE_NOT_AVAILABLE, str(error))
            finally:
                statistics.lock_began_ms = 0

    def _refuse(self, topic: str, status: PutMessageStatus, why: str) -> PutMessageResult:
        self._statistics.refused(status)
        return _refused(topic, status, why)

    def _append_fields(self, fields: RecordFields, properties: dict[str, str], now_ms: int) -> PutMessageResult:
        topic = fields.topic.decode()
        kind = fields.sys_flag & TRANSACTION_MASK
        queued = kind in (0, TRANSACTION_COMMIT)
        queue_offset = self._offsets.next(topic, fields.queue_id) if queued else 0
        property_crc = self.config.enabled_append_prop_crc
        size = record_size(fields, property_crc)
        if size > self.config.max_message_size + 65_536 or size + 8 > self.config.mapped_file_size_commit_log:
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"record of {size} bytes is too large")
        phy_offset = self._commit_log.place_one(size)
        record = encode_record(fields, phy_offset, queue_offset, now_ms, property_crc)
        assert len(record) == size
        self._commit_log.append(record, phy_offset)
        if queued:
            self._offsets.advance(topic, fields.queue_id)
        row = self._row(fields, properties, phy_offset, size, queue_offset, now_ms)
        self._commit_log.publish(phy_offset + size)
        self._pending.append((phy_offset + size, row))
        self._statistics.put_times += 1
        return PutMessageResult(
            PutMessageStatus.PUT_OK,
            topic,
            fields.queue_id,
            queue_offset,
            phy_offset,
            offset_msg_id(self.config.store_host, phy_offset),
            now_ms,
        )

    def _row(
        self,
        fields: RecordFields,
        properties: dict[str, str],
        phy_offset: int,
        size: int,
        queue_offset: int,
        now_ms: int,
    ) -> DispatchRow:
        topic = fields.topic.decode()
        kind = fields.sys_flag & TRANSACTION_MASK
        tags = properties.get(PROPERTY_TAGS, "")
        tags_code = string_hash(tags) if tags else 0
        if topic == SCHEDULE_TOPIC:
            tags_code = deliver_time(properties.get(PROPERTY_DELAY), now_ms, self.config.delay_levels_ms, tags_code)
        return DispatchRow(
            topic,
            fields.queue_id if kind in (0, TRANSACTION_COMMIT) else -1,
            queue_offset,
            phy_offset,
            size,
            tags_code,
            now_ms,
            properties.get(PROPERTY_UNIQ_KEY, ""),
            properties.get(PROPERTY_KEYS, ""),
            kind != TRANSACTION_ROLLBACK,
        )

    def _tick(self) -> int:
        """The store time of the next record: now, but never less than that of the one before."""
        self._store_timestamp = max(self._store_timestamp, self.config.clock.now_ms())
        return self._store_timestamp

    def _choose_queue(self, message: Message) -> int:
        if message.queue_id is not None:
            if message.queue_id >= 0:
                self._topics.have_queue(message.topic, message.queue_id)
            return message.queue_id
        queues = self._topics.queue_count(message.topic)
        if message.sharding_key is not None:
            return abs(string_hash(message.sharding_key)) % queues
        chosen = self._next_queue.get(message.topic, 0) % queues
        self._next_queue[message.topic] = chosen + 1
        return chosen

    def queue_count(self, topic: str) -> int:
        """Write queues of a topic; a new topic is made with the default number."""
        return self._topics.queue_count(topic)

    def ensure_topic(self, topic: str, queues: int | None = None) -> None:
        """Make the topic, with `queues` queues (or the default number), where it does not exist."""
        if not self._topics.exists(topic):
            self._topics.ensure(topic, queues or self.config.default_topic_queue_nums)

    def create_topic(self, topic: str, queues: int = 8) -> None:
        """Make a topic with `queues` read and write queues, or raise the number of an existing one."""
        self._topics.ensure(topic, queues)

    # -- bulk

    def append_batch(self, batch: pa.RecordBatch | pa.Table, topic: str | None = None) -> AppendBatchResult:
        """Append every row of an Arrow batch with the sink's columns, or none.

        Rows without a `topic` column go to `topic`. A refused row raises MessageRejectedError with its number before
        anything is written. With SYNC_FLUSH the rows are durable when this returns.
        """
        from rocketflow_store.columnar.encode import BatchEncoder

        self._check_open()
        encoder = BatchEncoder(self.config, self._topics.queue_count, default_topic=topic)
        first, rows = -1, 0
        with self._put_lock:
            self._check_writable()
            encoder.validate(batch)
            begin = self._commit_log.wrote_offset
            for chunk in encoder.encode(batch, now_ms=self._tick(), next_queue=self._next_queue):
                placed = self._append_chunk(chunk)
                first = int(placed.phy_offsets[0]) if first < 0 else first
                rows += len(chunk.sizes)
                if self.config.flush_disk_type is FlushDiskType.ASYNC_FLUSH:
                    self._dispatch_confirmed()
            end = self._commit_log.wrote_offset
        if self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH:
            self._flush.flush_to(end, self.config.sync_flush_timeout / 1000)
            self._dispatch_confirmed()
        return AppendBatchResult(rows, begin if first < 0 else first, end)

    def append_commit(
        self, envelope: Callable[[int, int], RecordFields], chunks: Iterable[EncodedChunk]
    ) -> AppendBatchResult:
        """Append an envelope and all rows of `chunks` behind it, sync (SYNC_FLUSH), and only then let anyone see them.

        `envelope(begin_offset, end_offset)` gives the envelope's record; its size must not depend on the offsets.
        """
        self._check_open()
        sync = self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        with self._put_lock:
            self._check_writable()
            begin, now_ms = self._commit_log.wrote_offset, self._tick()
            placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, now_ms)
            with self._taken_back_on_error(begin):
                size = record_size(envelope(0, 0), self.config.enabled_append_prop_crc)
                phy_offset = placer.reserve(size)
                placed = []
                with ParallelWriter(
                    ChunkWriter(self._commit_log, now_ms), (lambda: self._flush.flush_early(begin)) if sync else None
                ) as writer:
                    for chunk in chunks:
                        placed.append(placer.place(chunk))
                        writer.submit(placed[-1])
                head = self._write_envelope(envelope(phy_offset, placer.end), phy_offset, size, now_ms)
            placer.pending[COMMIT_TOPIC, COMMIT_QUEUE_ID] = 1
            # no row may be seen before all of them are: every part is confirmed by the end of the last
            self._publish(placer, [(placer.end, head), *((placer.end, one.rows) for one in placed)])
            if sync:
                self._flush.flush_to(placer.end, _COMMIT_TIMEOUT_S)
            self._dispatch_confirmed()
        return AppendBatchResult(sum(len(one.sizes) for one in placed), phy_offset, placer.end)

    def _write_envelope(self, fields: RecordFields, phy_offset: int, size: int, now_ms: int) -> DispatchRow:
        queue_offset = self._offsets.next(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        record = encode_record(fields, phy_offset, queue_offset, now_ms, self.config.enabled_append_prop_crc)
        assert len(record) == size
        self._commit_log.append(record, phy_offset)
        return self._row(fields, decode_properties(fields.properties), phy_offset, size, queue_offset, now_ms)

    def _append_chunk(self, chunk: EncodedChunk) -> PlacedChunk:
        """Place, write and publish one chunk."""
        begin, now_ms = self._commit_log.wrote_offset, self._tick()
        placer = ChunkPlacer(self._commit_log, self._offsets, self._topics, now_ms)
        with self._taken_back_on_error(begin):
            placed = placer.place(chunk)
            ChunkWriter(self._commit_log, now_ms).write(placed)
        self._publish(placer, [(placed.end, placed.rows)])
        return placed

    @contextmanager
    def _taken_back_on_error(self, begin: int) -> Iterator[None]:
        """What was written behind `begin` goes where the block fails; a failed sync fences the store."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, StoreFencedError):
                self._flush.fence = error
            self._commit_log.undo(begin)
            raise

    def _publish(self, placer: ChunkPlacer, rows: list[tuple[int, DispatchRow | DispatchRows]]) -> None:
        self._offsets.advance_all(placer.pending)
        self._statistics.put_times += sum(placer.pending.values())
        self._commit_log.publish(placer.end)
        self._pending.extend(rows)

    # -- facts

    def statistics(self) -> dict[str, Any]:
        """What the store counted and where it stands, under the names of RocketMQ's `getRuntimeInfo`.

        Times in ms, sizes in bytes, disk ratios as shares of 1 (-1 where they cannot be told).
        """
        now_ms = self.config.clock.now_ms()
        commit_log, clean, recovery = self._commit_log, self._clean.removed, self.recovery
        percent = {
            name: os_files.disk_used_percent(path)
            for name, path in (("commitLog", self.paths.commit_log), ("consumeQueue", self.paths.consume_queue))
        }
        return {
            **self._statistics.as_dict(now_ms, commit_log.wrote_offset - recovery.truncated_to),
            "commitLogMinOffset": self.min_phy_offset,
            "commitLogMaxOffset": commit_log.wrote_offset,
            "dispatchBehindBytes": commit_log.wrote_offset - self._confirmed,
            "remainHowManyDataToFlush": commit_log.wrote_offset - commit_log.flushed_offset,
            "isOSPageCacheBusy": self._statistics.page_cache_busy(
                now_ms, self.config.os_page_cache_busy_time_out_mills
            ),
            **{f"{name}DiskRatio": one if one < 0 else one / 100 for name, one in percent.items()},
            "diskFull": self._clean.disk_full,
            "fenced": self._flush.fence is not None,
            "mappedFilesMadeAhead": self._allocator.made_ahead,
            "mappedFilesMadeLate": self._allocator.made_late,
            "removedFiles": len(clean.log_files) + len(clean.queue_files) + len(clean.index_files),
            "removedBytes": clean.bytes,
            "recovery": {
                "abortFound": recovery.abort_found,
                "scannedFrom": recovery.scanned_from,
                "truncatedFrom": recovery.truncated_from,
                "truncatedTo": recovery.truncated_to,
                "dispatched": recovery.dispatched,
                "quarantined": len(recovery.quarantined),
                "seconds": recovery.seconds,
            },
        }

    # -- dispatch

    @property
    def confirm_offset(self) -> int:
        """Up to where readers may see the log."""
        return self._confirmed

    def _dispatch_confirmed(self) -> None:
        """Dispatch what the flush mode confirms, and publish how far readers may look."""
        sync = self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH
        with self._dispatch_lock:
            limit = self._commit_log.flushed_offset if sync else self._commit_log.wrote_offset
            confirmed = self._confirmed
            ready: list[DispatchRow | DispatchRows] = []
            while self._pending and self._pending[0][0] <= limit:
                confirmed, rows = self._pending.popleft()
                ready.append(rows)
            for single, group in groupby(ready, lambda rows: isinstance(rows, DispatchRow)):
                if single:
                    self._dispatch_singles(list(group))  # type: ignore[arg-type]
                else:
                    self._dispatcher.dispatch_all(list(group))  # type: ignore[arg-type]
            if confirmed > self._confirmed:
                self._confirmed = confirmed
                self._confirm_file.confirm(confirmed)
                last = ready[-1]
                if isinstance(last, DispatchRow):
                    self._dispatched_timestamp = last.store_timestamp
                elif len(last.store_timestamps):
                    self._dispatched_timestamp = int(last.store_timestamps[-1])

    def _dispatch_singles(self, rows: list[DispatchRow]) -> None:
        if len(rows) >= _GATHER_FROM:
            self._dispatcher.dispatch(gather_rows(rows))
        else:
            for row in rows:
                self._dispatcher.dispatch_one(row)

    # -- reading

    @property
    def min_phy_offset(self) -> int:
        """First byte of the log that is still there."""
        return self._log.min_phy_offset

    @property
    def max_phy_offset(self) -> int:
        """Physical offset behind the last record."""
        return self._commit_log.wrote_offset

    def topics(self) -> list[str]:
        """Topics that have a queue."""
        return sorted({topic for topic, _ in self._queues.names()})

    def queues(self, topic: str) -> list[int]:
        """Queue ids of a topic."""
        return [queue_id for name, queue_id in self._queues.names() if name == topic]

    def find(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue's files."""
        return self._queues.find(topic, queue_id)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min, max) queue offsets that can be read."""
        end = self._queues.end(topic, queue_id, self._confirmed)
        return min(self._queues.low(topic, queue_id, end), end), end

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First queue offset that can be read."""
        return self.bounds(topic, queue_id)[0]

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset behind the last message."""
        return self.bounds(topic, queue_id)[1]

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """Up to `max_count` messages from `offset`, with RocketMQ's statuses and transfer limits."""
        self._check_open()
        began_ns = time.perf_counter_ns()
        result = self._queries.get_message(topic, queue_id, offset, max_count, tags)
        self._statistics.got(result, time.perf_counter_ns() - began_ns)
        return result

    def read(
        self,
        topic: str,
        queue_id: int,
        start: int,
        end: int,
        columns: Sequence[str] | None = None,
        tags: str | None = None,
        max_batch_bytes: int = 2 << 20,
        on_missing: str = "error",
    ) -> Iterator[pa.RecordBatch]:
        """Messages [start, end) of a queue as RecordBatches: see `StoreQueries.read`."""
        self._check_open()
        return self._queries.read(topic, queue_id, start, end, columns, tags, max_batch_bytes, on_missing)

    def read_units(self, topic: str, queue_id: int, start: int, end: int) -> npt.NDArray[np.void]:
        """ConsumeQueue units of queue offsets [start, end): fields phy_offset, msg_size, tags_code."""
        return self._queries.units(topic, queue_id, start, end)

    def query_message(
        self, topic: str, key: str, max_count: int = 32, begin: int = 0, end: int = (1 << 63) - 1
    ) -> list[MessageExt]:
        """Messages of `topic` with `key`, through the index."""
        self._check_open()
        return self._queries.query_message(topic, key, max_count, begin, end)

    def look_message_by_offset(self, phy_offset: int) -> MessageExt | None:
        """The message whose record begins at `phy_offset`."""
        self._check_open()
        return self._queries.look_message_by_offset(phy_offset)

    def get_offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str = "lower") -> int:
        """Queue offset by store time: see `StoreQueries.get_offset_in_queue_by_time`."""
        self._check_open()
        return self._queries.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms, boundary)


def commit_record_fields(config: StoreConfig, body: bytes, properties: bytes, now_ms: int) -> RecordFields:
    """The record of an envelope: a message of the commit topic from this store to itself."""
    host = encode_host(config.store_host)
    return RecordFields(
        topic=COMMIT_TOPIC.encode(),
        queue_id=COMMIT_QUEUE_ID,
        body=body,
        properties=properties,
        flag=0,
        sys_flag=0,
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )


def _refused(topic: str, status: PutMessageStatus, why: str) -> PutMessageResult:
    return PutMessageResult(status, topic, -1, -1, -1, "", -1, why)


def _with_status(result: PutMessageResult, status: PutMessageStatus, why: str) -> PutMessageResult:
    if not result.stored:
        return result
    return PutMessageResult(
        status,
        result.topic,
        result.queue_id,
        result.queue_offset,
        result.physical_offset,
        result.msg_id,
        result.store_timestamp,
        why,
    )
