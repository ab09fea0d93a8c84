"""The writing store: open (lock, recover), put, read, close. The parts are elsewhere; this is where they meet.

Threads: any number of callers; puts are serialised by the put lock (`put_path`), syncs are shared
(`flush.GroupFlush`), dispatch follows the confirmed offset under the dispatch lock (`confirmed_dispatch`). Daemon
threads flush (`flush_services`), make files ahead (`allocate_ahead`) and delete old ones (`clean_service`).
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketflow_store.append.acknowledgement import Acknowledgement
from rocketflow_store.append.assigned_properties import AssignedProperties
from rocketflow_store.append.async_put import AsyncPut
from rocketflow_store.append.bulk_append import BulkAppend
from rocketflow_store.append.log_append import LogAppend
from rocketflow_store.append.put_path import PutPath
from rocketflow_store.append.queue_choice import QueueChoice
from rocketflow_store.append.write_gate import WriteGate
from rocketflow_store.commits.remembered_commits import remember_commits
from rocketflow_store.engine.clean_service import CleanResult, CleanService
from rocketflow_store.engine.flush_services import FlushServices
from rocketflow_store.engine.opening import open_parts
from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.engine.written_queues import WrittenQueues
from rocketflow_store.files import os_files
from rocketflow_store.files.lock import DirectoryLock
from rocketflow_store.files.read_once import ReadOnce
from rocketflow_store.metadata.layout.other_engines import refuse_rocksdb_data
from rocketflow_store.metadata.layout.store_paths import check_writable_directory
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.metadata.native.confirm import ConfirmFile
from rocketflow_store.model.errors import (
    MessageRejectedError,
    StoreAccessError,
    StoreClosedError,
    StoreConfigError,
    StoreError,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import is_directory_name, is_system_topic
from rocketflow_store.reading.faults import STRICT
from rocketflow_store.reading.queue_units import queue_units
from rocketflow_store.reading.read_sources import ReadSources
from rocketflow_store.reading.store_reads import StoreReads
from rocketflow_store.recovery.take_stop_record import leave_stop_record
from rocketflow_store.recovery.topic_deletion import begin_deletion, finish_deletions
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.telemetry import events
from rocketflow_store.telemetry.statistics import StoreStatistics
from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.metadata.native.tag_entries import TagEntries
    from rocketflow_store.model.message import Message, MessageBatch
    from rocketflow_store.model.results import AppendBatchResult, PutMessageResult
    from rocketflow_store.reading.get_message_result import GetMessageResult
    from rocketflow_store.reading.record_boundaries import RecordBoundaries
    from rocketflow_store.records.encoding.encode import EncodedChunk

FIRST_CLEAN_S: Final = 60.0
_OPEN: Final = weakref.WeakSet["MessageStore"]()


def _leave_to_parent() -> None:
    """In a forked process: it has neither the lock nor the threads of the stores that are open."""
    for store in _OPEN:
        store.abandon_after_fork()


os.register_at_fork(after_in_child=_leave_to_parent)


class MessageStore(StoreReads):
    """A store directory open for writing; one at a time, on this machine and in this process."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], config: StoreConfig | None = None) -> Self:
        """Lock the directory, create or recover the store in it, and start. Use as a context manager.

        File sizes of an existing store are taken from its files. Raises StoreLockedError, NotAStoreError,
        StoreVersionError or StoreAccessError before anything is changed.
        """
        return cls(Path(path).absolute(), config or StoreConfig())

    def __init__(self, path: Path, config: StoreConfig) -> None:
        started = time.monotonic()
        read = ReadOnce()
        self.path, paths = path, check_writable_directory(path, config, read)
        refuse_rocksdb_data(path)
        if paths.abort.is_dir():
            raise StoreAccessError(paths.abort, "is a directory; a writer makes a file of this name: move it away")
        try:
            if not path.is_dir():
                os_files.make_directory(path)
                os_files.sync_directory(path.parent)
        except OSError as error:
            raise os_files.access_error(path, error) from error
        self._lock = DirectoryLock(paths.lock)
        try:
            with ExitStack() as on_error:
                self._start(open_parts(paths, config, on_error, read), on_error)
                on_error.pop_all()
        except BaseException:
            self._lock.release()
            raise
        self.recovery.seconds = time.monotonic() - started
        _OPEN.add(self)

    def abandon_after_fork(self) -> None:
        """In a process that was forked from the one that opened the store: it is closed here, and left as it is."""
        self._closed = self._forsaken = True
        self._put.abandon_after_fork()

    def _start(self, parts: StoreParts, on_error: ExitStack) -> None:
        self._parts = parts
        self.meta, self.recovery, self.config_files = parts.meta, parts.recovery, parts.config_files
        self._files, self._queues = parts.files, parts.queues
        self._commit_log, self._flush, self._topics = parts.commit_log, parts.flush, parts.topics
        self._fence = parts.fence
        self._allocator = parts.allocator
        self._closed = self._forsaken = False
        self._statistics = StoreStatistics(parts.config.clock.now_ms())
        # found by whoever opens the store next: the stop was not orderly
        os_files.write_atomically(parts.paths.abort, str(os.getpid()).encode())
        self._dispatch = self._confirmed_dispatch(parts)
        on_error.callback(self._dispatch.confirm_file.close, remove=False)
        queues = WrittenQueues(
            parts.paths, parts.log, parts.queues, parts.batch_queues, lambda: self._dispatch.confirm_offset
        )
        self._reads = ReadSources.of(
            *(parts.config, parts.files, parts.log, queues, parts.index),
            lambda: self._commit_log.committed_offset,
        )
        self._clean = CleanService(
            self.paths,
            self._files,
            self._queues,
            self.index,
            self.config,
            removable_to=lambda: min(self._dispatch.confirm_offset, self._commit_log.flushed_offset),
            dispatch_lock=self._dispatch.lock,
            before_removal=self._before_removal,
        )
        self._clean_lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self.commit_lock = threading.RLock()
        """Held by who looks for the last commit of a sink and appends the next: two threads would both find none."""
        self._flushing = flushing = FlushServices(parts, self._dispatch, self._statistics, self._tell_held)
        self._wire_writing(parts, flushing.appended if flushing.wakes else None)
        self._clean_thread = ServiceThread(
            "clean-resource",
            self._clean_step,
            self.config.clean_resource_interval / 1000,
            first_s=FIRST_CLEAN_S,
            failed=self._tell_held,
        )

    def _confirmed_dispatch(self, parts: StoreParts) -> ConfirmedDispatch:
        end = parts.commit_log.committed_offset
        confirm_file = ConfirmFile(
            parts.paths,
            end,
            end,
            synced=parts.sync_flush,
            record_crc=parts.config.append_prop_crc,
            timestamp=parts.least_timestamp,
            tag_entries_from=parts.tag_entries.last_from(end) if parts.indexes_tags else -1,
        )
        dispatch = ConfirmedDispatch(
            *(self.path, parts.dispatcher, parts.index, parts.log, parts.commit_log, parts.fence, confirm_file),
            (parts.store_timestamp, parts.dispatched_phy_offset),
            sync_flush=parts.sync_flush,
        )
        if parts.sync_flush:
            parts.flush.synced = dispatch.follow_for_all
        return dispatch

    def _wire_writing(self, parts: StoreParts, appended: Callable[[], None] | None) -> None:
        """Put the write path together; `appended` is told of puts that nobody waits for."""
        config, commit_log, dispatch, statistics = parts.config, parts.commit_log, self._dispatch, self._statistics
        assigned = AssignedProperties(config, parts.side_queues.is_batch_cq, parts.queues)
        log_append = LogAppend(
            *(commit_log, parts.offsets, assigned, dispatch, parts.fence, statistics),
            *(config.clock, parts.least_timestamp),
        )
        choice = QueueChoice(parts.topics, parts.offsets)
        gate = WriteGate(self.path, config, commit_log, parts.fence, dispatch, lambda: self._clean.disk_full)
        acknowledgement = Acknowledgement(parts.flush, dispatch, statistics, config, appended)
        side = parts.side_queues
        self._put = PutPath(self.path, config, log_append, choice, gate, acknowledgement, statistics, side)
        most = config.max_async_put_message_requests
        self._async = AsyncPut(self.path, self._put, acknowledgement, log_append, statistics, most)
        self._bulk = BulkAppend(
            config, parts.topics, self._put, log_append, choice, gate, parts.flush, dispatch, appended
        )

    def _tell_held(self, service: str, error: Exception) -> None:
        """A thread cannot do its work, for a reason of its own: fences and held dispatch have events of theirs."""
        if self._fence.error is None and self._dispatch.failure is None:
            events.tell(events.SERVICE_HELD, self.path, service, str(error) or repr(error))

    # -- opening and closing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Orderly stop: sync log, queues, index, checkpoint; then, and only then, remove `abort`."""
        if self._forsaken:
            return
        with self._put.lock:
            if self._closed:
                return
            self._closed = True
        with ExitStack() as at_last:
            at_last.callback(self._lock.release)
            at_last.callback(self._parts.close_files)
            self._async.close()
            self._put.close()
            self._flushing.stop()
            self._clean_thread.stop()
            self._allocator.stop()
            at_last.enter_context(self._clean_lock)  # somebody else's clean-up or flush ends first
            at_last.enter_context(self._flush_lock)
            clean = False
            try:
                clean = self._make_durable()
            finally:
                self._dispatch.confirm_file.close(remove=clean)
            if clean:
                os_files.remove_file(self.paths.abort)
                os_files.sync_directory(self.path)

    def _make_durable(self) -> bool:
        """Everything that was put, and the record of this stop; False where a failed sync left nothing certain."""
        if self._fence.error is not None:
            with suppress(StoreError):  # it may still be recovered
                self._commit_log.commit()
            return False
        self._clean.remove_retired()
        self._flushing.flush_last()
        leave_stop_record(
            self.paths,
            self.config,
            self._queues,
            self._parts.batch_queues,
            self.index,
            self._parts.files,
            self.max_phy_offset,
            began=self.recovery.truncated_to,
            record_crc=self._dispatch.confirm_file.gives_record_crc,
            tag_entries=self._tag_entries(),
        )
        return True

    def _tag_entries(self) -> TagEntries:
        """Return where the index names the TAGS of every record."""
        parts = self._parts
        if not parts.indexes_tags:
            return parts.tag_entries
        return parts.tag_entries.extended(self.recovery.truncated_to, self.max_phy_offset)

    def flush(self) -> None:
        """Make everything durable: log, queues, index, checkpoint, in this order; recovery will begin behind it.

        FlushDiskTimeoutError where that takes longer than syncFlushTimeout: then nothing is promised.
        """
        with self._flush_lock:
            self._check_open()
            self._flushing.flush()

    def dispatch_pending(self) -> None:
        """Show what is stored and could not be dispatched (no space for a queue); raises while the cause is there."""
        self._check_open()
        self._dispatch.follow()

    def _before_removal(self, min_phy_offset: int) -> None:
        queues = self._reads.queues
        bounds = queues.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        units = queue_units(queues, COMMIT_TOPIC, COMMIT_QUEUE_ID, *bounds, STRICT)
        remember_commits(self.paths, units, self._reads.lookup.at, min_phy_offset)

    def _clean_step(self) -> None:
        with self._clean_lock:
            self._clean.step(self._clean_thread.pause)
            self._clean_batch_queues()

    def clean(self) -> CleanResult:
        """Delete every log file whose `fileReservedTime` is over, whatever the hour, and what pointed at it.

        Where the disk is used beyond `diskSpaceCleanForciblyRatio` the oldest files go whatever their age.
        """
        self.flush()
        result = CleanResult()
        with self._clean_lock:
            while True:
                self._check_open()
                done = self._clean.step(manual=True)
                result.add(done)
                result.queue_files += self._clean_batch_queues()
                if not done.log_files:
                    return result

    def _clean_batch_queues(self) -> list[Path]:
        config = self.config
        with self._dispatch.lock:
            return self._parts.batch_queues.remove_below(
                self._files.there_from, config.clock.now_ms(), config.destroy_maped_file_interval_forcibly
            )

    # -- putting

    def put_message(self, message: Message | MessageBatch) -> PutMessageResult:
        """Store one message, or all messages of a client's batch one behind another.

        A refusal is a status, not an exception, and nothing of it is stored.
        """
        self._check_open()
        return self._put.put((message,))[0]

    def put_messages(self, messages: Iterable[Message | MessageBatch]) -> list[PutMessageResult]:
        """Store messages in order with one flush for all; each has its own outcome."""
        self._check_open()
        return self._put.put(tuple(messages))

    def put_message_async(self, message: Message | MessageBatch) -> Future[PutMessageResult]:
        """As `put_message`, without waiting: the future is done when `put_message` would have returned.

        Messages of one caller are stored in the order of these calls. Where `maxAsyncPutMessageRequests` wait the call
        waits for room, and gives OS_PAGE_CACHE_BUSY when there is none in time. After a failed sync futures raise
        StoreFencedError. A future that was cancelled before its turn stores nothing. Callbacks run in the store's
        threads and should be short.
        """
        self._check_open()
        return self._async.submit_one(message)

    def put_messages_async(self, messages: Iterable[Message | MessageBatch]) -> Future[list[PutMessageResult]]:
        """As `put_messages`, without waiting: see `put_message_async`."""
        self._check_open()
        return self._async.submit(tuple(messages))

    def put_record(self, fields: RecordFields) -> PutMessageResult:
        """Store a record whose fields are given byte for byte (a replica, a restore, a test).

        MessageRejectedError where its topic may not be the name of a directory.
        """
        self._check_open()
        if not is_directory_name(fields.topic.decode("utf-8", "replace")):
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"topic {fields.topic!r:.80} is no name")
        return self._put.put((fields,))[0]

    def count_timers_by(self, waiting_at: Callable[[int], int] | None) -> None:
        """Have timer messages refused (WHEEL_TIMER_FLOW_CONTROL) whose tick has more than `timerCongestNumEachSlot`.

        `waiting_at` tells how many wait in the tick of a time (ms): a TimerMessageService does. None: nobody counts.
        """
        self._put.count_timers_by(waiting_at)

    def append_batch(self, batch: pa.RecordBatch | pa.Table, topic: str | None = None) -> AppendBatchResult:
        """Append every row of an Arrow batch with the sink's columns.

        Rows without a `topic` column go to `topic`. A refused row raises MessageRejectedError with its number, columns
        that are not the sink's UnknownColumnError or BatchSchemaError, before anything is written; where the disk fails
        half-way the rows in front of that stay, whole and in order (`append_commit` writes all or none). With
        SYNC_FLUSH the rows are durable when this returns.
        """
        self._check_open()
        return self._bulk.append_batch(batch, topic)

    def append_commit(
        self,
        envelope: Callable[[int, int], RecordFields],
        chunks: Iterable[EncodedChunk],
        check: Callable[[], None] | None = None,
    ) -> AppendBatchResult:
        """Append an envelope and all rows of `chunks` behind it, sync (SYNC_FLUSH), and only then let anyone see them.

        `envelope(begin_offset, end_offset)` gives the envelope's record; its size must not depend on the offsets.
        `check` is called while no other thread can put, before anything is written: what it raises refuses the commit.
        """
        self._check_open()
        return self._bulk.append_commit(envelope, chunks, check)

    # -- topics

    def queue_count(self, topic: str) -> int:
        """Write queues of a topic; a new topic is made with the default number."""
        self._check_open()
        return self._topics.queue_count(topic)

    def ensure_topic(self, topic: str, queues: int | None = None) -> None:
        """Make the topic, with `queues` queues (or the default number), where it does not exist."""
        self._check_open()
        if not self._topics.exists(topic):
            self._topics.ensure(topic, queues or self.config.default_topic_queue_nums)

    def create_topic(self, topic: str, queues: int = 8, *, queue_type: str | None = None) -> None:
        """Make a topic with `queues` read and write queues, or raise the number of an existing one.

        `queue_type` is RocketMQ's attribute `queue.type`, "SimpleCQ" or "BatchCQ"; StoreConfigError where it differs
        from what the topic's messages were stored with.
        """
        with self._put.lock:  # nobody stores a first message of the other type meanwhile
            self._check_open()
            self._topics.ensure(topic, queues)
            if queue_type is not None:
                offsets, count = self._parts.offsets, self._topics.queue_count(topic)
                in_use = bool(self.queues(topic)) or any(offsets.next(topic, one) for one in range(count))
                self._topics.set_queue_type(topic, queue_type, in_use=in_use)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, or a light queue: its queues, its entry, the positions of its consumers.

        Its messages do not come back, whatever is made again from the log, nor under a new topic of that name. Durable
        on return; a kill in between leaves all of it, or is finished by the next open. StoreConfigError for a topic of
        the store itself.
        """
        self._check_open()
        if is_system_topic(topic) or not is_directory_name(topic):
            raise StoreConfigError("topic", topic, "is no topic that can be deleted")
        with self._clean_lock, self._put.lock:
            self.flush()
            try:
                with self._flushing.forgetting(topic):
                    begin_deletion(self.paths, topic, self._commit_log.wrote_offset)
                    self._forget_topic(topic)
            except BaseException as error:
                self._fence.close_for(f"topic {topic} is half deleted ({error!r}); the next open finishes it")
                raise

    def _forget_topic(self, topic: str) -> None:
        parts = self._parts
        with self._dispatch.lock:
            ids = parts.queues.remove_topic(topic) + parts.batch_queues.remove_topic(topic)
            finish_deletions(self.paths, self.config_files)
            parts.side_queues.forget(topic)
            self._topics.forget(topic)
            for queue_id in ids:
                parts.offsets.advance(topic, queue_id, -parts.offsets.next(topic, queue_id))

    # -- facts

    def statistics(self) -> dict[str, Any]:
        """What the store counted and where it stands, under the names of RocketMQ's `getRuntimeInfo`.

        Times in ms, sizes in bytes, disk ratios as shares of 1 (-1 where they cannot be told).
        """
        now_ms = self.config.clock.now_ms()
        commit_log, clean, recovery = self._commit_log, self._clean.removed, self.recovery
        logs = {str(one): os_files.disk_used_percent(one) for one in self.paths.commit_logs}
        percent = {
            "commitLogDiskRatio": min(logs.values()),
            **({f"commitLogDiskRatio_{path}": one for path, one in logs.items()} if len(logs) > 1 else {}),
            "consumeQueueDiskRatio": os_files.disk_used_percent(self.paths.consume_queue),
        }
        return {
            **self._statistics.as_dict(now_ms, commit_log.wrote_offset - recovery.truncated_to),
            "commitLogMinOffset": self.min_phy_offset,
            "commitLogMaxOffset": commit_log.committed_offset,
            "dispatchBehindBytes": commit_log.wrote_offset - self._dispatch.confirm_offset,
            **self._pool_statistics(),
            "remainHowManyDataToFlush": commit_log.committed_offset - commit_log.flushed_offset,
            "isOSPageCacheBusy": self._statistics.page_cache_busy(
                now_ms, self.config.os_page_cache_busy_time_out_mills
            ),
            **{name: one if one < 0 else one / 100 for name, one in percent.items()},
            "diskFull": self._clean.disk_full,
            "fenced": self._fence.error is not None,
            "mappedFilesMadeAhead": self._allocator.made_ahead,
            "mappedFilesMadeLate": self._allocator.made_late,
            "mappedFilesLocked": len(self._allocator.locked.offsets),
            "removedFiles": len(clean.log_files) + len(clean.queue_files) + len(clean.index_files),
            "removedBytes": clean.bytes,
            "events": events.counts(self.path),
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

    def _pool_statistics(self) -> dict[str, Any]:
        buffered, commit_log = self._parts.buffered, self._commit_log
        if buffered is None:
            return {}
        return {
            "transientStorePoolSize": buffered.pool.size,
            "transientStorePoolLocked": buffered.pool.locked,
            "remainTransientStoreBufferNumbs": buffered.pool.available,
            "remainHowManyDataToCommit": commit_log.wrote_offset - commit_log.committed_offset,
        }

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """Whether every buffer of the TransientStorePool is in use; False without one."""
        buffered = self._parts.buffered
        return buffered is not None and buffered.pool.available == 0

    # -- reading

    @property
    def confirm_offset(self) -> int:
        """Up to where readers may see the log."""
        return self._dispatch.confirm_offset

    @property
    def state(self) -> str:
        """Always "running": this process has the lock."""
        return "running"

    @property
    def max_phy_offset(self) -> int:
        """Physical offset after the last record (that is committed, with a TransientStorePool): the writer knows it."""
        return self._commit_log.committed_offset

    @property
    def proven_records(self) -> RecordBoundaries:
        """Proofs of where the records of the log begin."""
        return self._reads.lookup.boundaries

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """As the base's, and counted: `statistics` has the gets of a store that is open for writing."""
        began_ns = time.perf_counter_ns()
        result = super().get_message(topic, queue_id, offset, max_count, tags)
        self._statistics.got(result.message_count, time.perf_counter_ns() - began_ns)
        return result

    def refresh(self) -> None:
        """Do nothing: the writer makes and deletes the files itself."""

    def _check_open(self) -> None:
        """Raise StoreClosedError: the store's files may be another writer's by now."""
        if self._closed:
            raise StoreClosedError(self.path)
