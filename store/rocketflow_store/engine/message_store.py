"""The writing store, as users see it: open, put, read, close. It connects the parts of the other modules.

Threads: any number of callers; puts are serialised by the put lock (`put_path`), syncs are shared
(`flush.GroupFlush`), dispatch follows the confirmed offset under the dispatch lock (`confirmed_dispatch`). Daemon
threads flush (`flush_services`, by `durability`), preallocate files (`allocate_ahead`), delete old ones
(`clean_rounds`) and look whether all are in their place (`place_watch`).
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocketflow_store.commits.remembered_commits import remember_commits
from rocketflow_store.engine.clean_rounds import CleanRounds
from rocketflow_store.engine.clean_service import CleanGuards, CleanResult, CleanService
from rocketflow_store.engine.durability import Durability
from rocketflow_store.engine.flush_services import FlushServices
from rocketflow_store.engine.opening import open_parts
from rocketflow_store.engine.place_watch import PlaceWatch
from rocketflow_store.engine.runtime_figures import runtime_figures
from rocketflow_store.engine.service_thread import report_held
from rocketflow_store.engine.store_life import StoreLife, lock_directory, mark_open
from rocketflow_store.engine.topic_admin import TopicAdmin, check_deletable
from rocketflow_store.engine.writing import Writing, confirmed_dispatch
from rocketflow_store.engine.written_queues import WrittenQueues
from rocketflow_store.files.read_once import ReadOnce
from rocketflow_store.metadata.native.commit_envelope import COMMIT_QUEUE_ID, COMMIT_TOPIC
from rocketflow_store.model.errors import MessageRejectedError, StoreClosedError
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.model.topic_names import is_directory_name
from rocketflow_store.reading.faults import STRICT
from rocketflow_store.reading.queue_units import queue_units
from rocketflow_store.reading.read_sources import ReadSources
from rocketflow_store.reading.store_reads import StoreReads
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.telemetry.statistics import StoreStatistics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.format.record import RecordFields
    from rocketflow_store.metadata.config_files import ConfigFiles
    from rocketflow_store.metadata.layout.store_meta import StoreMeta
    from rocketflow_store.metadata.layout.store_paths import StoreLock
    from rocketflow_store.model.message import Message, MessageBatch
    from rocketflow_store.model.results import AppendBatchResult, PutMessageResult
    from rocketflow_store.reading.get_message_result import GetMessageResult
    from rocketflow_store.reading.record_boundaries import RecordBoundaries
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.recovery.result import RecoveryResult


class MessageStore(StoreReads):
    """A store directory that is open for writing, by one process on one machine at a time."""

    @classmethod
    def open(cls, path: str | os.PathLike[str], config: StoreConfig | None = None) -> Self:
        """Lock the directory, create or recover the store in it, and start. Use as a context manager.

        File sizes of an existing store are taken from its files.

        Raises:
            StoreLockedError: another process has the store open for writing, or another store in one of its
                directories.
            NotAStoreError: the directory holds other files.
            StoreVersionError: this version cannot write to the store, or files do not fit together.
            StoreAccessError: a file cannot be read. All of these are raised before anything is changed.
        """
        return cls(Path(path).absolute(), config or StoreConfig())

    def __init__(self, path: Path, config: StoreConfig) -> None:
        started = time.monotonic()
        self.path, read = path, ReadOnce()
        paths, lock = lock_directory(path, config, read)
        self.commit_lock = threading.RLock()
        """Held between reading the last commit of a sink and appending the next: two threads would both find none."""
        try:
            with ExitStack() as on_error:
                self._start(open_parts(paths, config, on_error, read, lock), lock, on_error)
                on_error.pop_all()
        except BaseException:
            lock.release()
            raise
        self.recovery.seconds = time.monotonic() - started

    def _start(self, parts: StoreParts, lock: StoreLock, on_error: ExitStack) -> None:
        self._parts, writer = parts, parts.writer
        self._statistics = StoreStatistics(parts.config.clock.now_ms())
        mark_open(parts.paths)
        self._dispatch = dispatch = confirmed_dispatch(parts)
        on_error.callback(dispatch.confirm_file.close, remove=False)
        lock.hold_open()
        queues = WrittenQueues(parts.paths, parts.log, parts.views, lambda: dispatch.confirm_offset)
        log_end = lambda: writer.commit_log.committed_offset  # noqa: E731
        self._reads = ReadSources.of(parts.config, parts.files, parts.log, queues, parts.views.index, log_end)
        guards = CleanGuards(
            lambda: min(dispatch.confirm_offset, writer.commit_log.flushed_offset), dispatch.lock, self._before_removal
        )
        clean = CleanService(parts.paths, parts.files, parts.views, parts.config, guards)
        failed = report_held(self.path, writer.fence, dispatch)
        durability = Durability(parts, dispatch)
        flushing = FlushServices(parts, dispatch, durability, self._statistics, failed)
        on_error.callback(flushing.stop)
        appended = flushing.appended if flushing.wakes else None
        self._writing = Writing.of(parts, dispatch, self._statistics, lambda: clean.disk_full, appended)
        self._admin = TopicAdmin(parts, durability, dispatch.lock)
        self._rounds = CleanRounds(clean, parts.config.clean_resource_interval / 1000, failed)
        on_error.callback(self._rounds.stop)
        watch = PlaceWatch(lock, parts)
        self._life = StoreLife(lock, parts, dispatch, self._writing, flushing, self._rounds, watch)

    # -- opening and closing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop in order: sync log, queues, index, checkpoint; then, and only then, remove `abort`."""
        self._life.close()

    def flush(self) -> None:
        """Make log, queues, index and checkpoint durable, in this order; a recovery would start after them.

        Raises:
            FlushDiskTimeoutError: that takes longer than syncFlushTimeout; nothing is promised then.
        """
        self._life.flush()

    def dispatch_pending(self) -> None:
        """Dispatch records that could not be dispatched (no space for a queue); raise while the cause persists."""
        self.check_open()
        self._dispatch.follow()

    def clean(self) -> CleanResult:
        """Delete every log file whose `fileReservedTime` is over, whatever the hour, and the files that pointed at it.

        If the disk is used beyond `diskSpaceCleanForciblyRatio`, the oldest files are deleted whatever their age.
        """
        self.flush()
        return self._rounds.clean(self.check_open)

    def _before_removal(self, min_phy_offset: int) -> None:
        queues = self._reads.queues
        bounds = queues.bounds(COMMIT_TOPIC, COMMIT_QUEUE_ID)
        units = queue_units(queues, COMMIT_TOPIC, COMMIT_QUEUE_ID, *bounds, STRICT)
        remember_commits(self.paths, units, self._reads.lookup.at, min_phy_offset)

    # -- putting

    def put_message(self, message: Message | MessageBatch) -> PutMessageResult:
        """Store one message, or all messages of a client's batch consecutively.

        A refusal is a status, not an exception, and nothing of it is stored.
        """
        self.check_open()
        puts = self._writing.puts
        stored = puts.take_one(message)
        return puts.put((message,))[0] if stored is None else stored

    def put_messages(self, messages: Iterable[Message | MessageBatch]) -> list[PutMessageResult]:
        """Store messages in order with one flush for all; each has its own outcome."""
        self.check_open()
        return self._writing.puts.put(tuple(messages))

    def put_message_async(self, message: Message | MessageBatch) -> Future[PutMessageResult]:
        """Store messages without waiting: the future is done when `put_message` would have returned.

        Messages of one caller are stored in the order of these calls. If `maxAsyncPutMessageRequests` are waiting, the
        call waits too, and returns OS_PAGE_CACHE_BUSY if that takes too long. After a failed sync futures raise
        StoreFencedError. A future that was cancelled before its turn stores nothing. Callbacks run in the store's
        threads and should be short.
        """
        self.check_open()
        return self._writing.later.submit_one(message)

    def put_messages_async(self, messages: Iterable[Message | MessageBatch]) -> Future[list[PutMessageResult]]:
        """Store messages like `put_messages`, without waiting: see `put_message_async`."""
        self.check_open()
        return self._writing.later.submit(tuple(messages))

    def put_record(self, fields: RecordFields) -> PutMessageResult:
        """Store a record whose fields are given byte for byte (a replica, a restore, a test).

        Raises:
            MessageRejectedError: its topic cannot be the name of a directory.
        """
        self.check_open()
        if not is_directory_name(fields.topic.decode("utf-8", "replace")):
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, f"topic {fields.topic!r:.80} is not valid")
        return self._writing.puts.put((fields,))[0]

    def count_timers_by(self, waiting_at: Callable[[int], int] | None) -> None:
        """Refuse timer messages (WHEEL_TIMER_FLOW_CONTROL) if their tick has more than `timerCongestNumEachSlot`.

        `waiting_at` returns how many wait in the tick of a time (ms), as a TimerMessageService does. None: no limit.
        """
        self._writing.puts.count_timers_by(waiting_at)

    def append_batch(self, batch: pa.RecordBatch | pa.Table, topic: str | None = None) -> AppendBatchResult:
        """Append every row of an Arrow batch with the sink's columns.

        Rows without a `topic` column go to `topic`. Before anything is written, a refused row raises
        MessageRejectedError with its number, and unknown columns raise UnknownColumnError or BatchSchemaError. If the
        disk fails half-way, the rows before that stay, complete and in order (`append_commit` writes all or none). With
        SYNC_FLUSH the rows are durable when this returns.
        """
        self.check_open()
        return self._writing.bulk.append_batch(batch, topic)

    def append_commit(
        self,
        envelope: Callable[[int, int], RecordFields],
        chunks: Iterable[EncodedChunk],
        check: Callable[[], None] | None = None,
    ) -> AppendBatchResult:
        """Append an envelope and after it all rows of `chunks`, sync (SYNC_FLUSH), and only then let readers see them.

        `envelope(begin_offset, end_offset)` gives the envelope's record; its size must not depend on the offsets.
        `check` is called while no other thread can put, before anything is written; its exception refuses the commit.
        """
        self.check_open()
        return self._writing.bulk.append_commit(envelope, chunks, check)

    # -- topics

    def queue_count(self, topic: str) -> int:
        """Return the number of write queues of a topic; a new topic is created with the default number."""
        self.check_open()
        return self._admin.queue_count(topic)

    def ensure_topic(self, topic: str, queues: int | None = None) -> None:
        """Create the topic, with `queues` queues (or the default number), if it does not exist."""
        self.check_open()
        self._admin.ensure(topic, queues)

    def one_topic_write(self) -> AbstractContextManager[None]:
        """Write the topics that a block creates by `ensure_topic` together, at its end; it takes no put lock."""
        self.check_open()
        return self._admin.one_write()

    def create_topic(self, topic: str, queues: int = 8, *, queue_type: str | None = None) -> None:
        """Create a topic with `queues` read and write queues, or raise the number of an existing one.

        `queue_type` is RocketMQ's attribute `queue.type`, "SimpleCQ" or "BatchCQ".

        Raises:
            StoreConfigError: the topic's messages were stored with another queue type.
        """
        with self._writing.puts.lock:  # no first message of the other type may be stored meanwhile
            self.check_open()
            self._admin.create(topic, queues, queue_type)

    def set_topic_queues(self, topic: str, queues: int) -> None:
        """Give a topic `queues` write queues, and read queues for every queue that it ever had."""
        self.check_open()
        self._admin.set_queues(topic, queues)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, or an LMQ: its queues, its entry, the positions of its consumers.

        Its messages do not return, neither in queues that are rebuilt from the log nor under a new topic of that name.
        Durable on return; after a kill in between, the topic is unchanged or the next open completes the deletion.

        Raises:
            StoreConfigError: the topic belongs to the store itself.
        """
        self.check_open()
        check_deletable(topic)
        with self._rounds.lock, self._writing.puts.lock:
            self.flush()
            self._admin.delete(topic)

    # -- facts

    @property
    def meta(self) -> StoreMeta:
        """Contents of `rocketflow/store.meta`."""
        return self._parts.meta

    @property
    def recovery(self) -> RecoveryResult:
        """Result of the recovery of the open."""
        return self._parts.recovery

    @property
    def config_files(self) -> ConfigFiles:
        """RocketMQ's JSON files below `config/`."""
        return self._parts.config_files

    def statistics(self) -> dict[str, Any]:
        """Return statistics of the store, under the names of RocketMQ's `getRuntimeInfo`.

        Times in ms, sizes in bytes, disk ratios as shares of 1 (-1 if unknown).
        """
        return runtime_figures(self._parts, self._statistics, self._rounds.service, self._dispatch.confirm_offset)

    @property
    def is_transient_store_pool_deficient(self) -> bool:
        """True if every buffer of the TransientStorePool is in use; False without one."""
        buffered = self._parts.writer.buffered
        return buffered is not None and buffered.pool.available == 0

    # -- reading

    @property
    def confirm_offset(self) -> int:
        """The end of the log that readers may see."""
        return self._dispatch.confirm_offset

    @property
    def state(self) -> str:
        """Always "running": this process has the lock."""
        return "running"

    @property
    def max_phy_offset(self) -> int:
        """Physical offset after the last record (that is committed, with a TransientStorePool): the writer knows it."""
        return self._parts.writer.commit_log.committed_offset

    @property
    def proven_records(self) -> RecordBoundaries:
        """Proofs of where the records of the log begin."""
        return self._reads.lookup.boundaries

    def get_message(
        self, topic: str, queue_id: int, offset: int, max_count: int = 32, tags: str | None = None
    ) -> GetMessageResult:
        """Read like `StoreReads.get_message`; `statistics` counts these calls."""
        began_ns = time.perf_counter_ns()
        result = super().get_message(topic, queue_id, offset, max_count, tags)
        self._statistics.got(result.message_count, time.perf_counter_ns() - began_ns)
        return result

    def refresh(self) -> None:
        """Do nothing: the writer creates and deletes the files itself."""

    def check_open(self) -> None:
        """Raise StoreClosedError if the store is closed: its files may belong to another writer."""
        if self._life.closed:
            raise StoreClosedError(self.path)
