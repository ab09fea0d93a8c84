"""Opening a store for writing: its parts, recovered and put together, before any thread runs."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles, TransientStorePool
from rocketflow_store.files.sync_together import sync_together
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint, logics_physical_offset
from rocketflow_store.log.commit_log import CommitLog
from rocketflow_store.log.fence import Fence
from rocketflow_store.log.group_flush import GroupFlush
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.record_crc_range import readable_range
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.config_files.topic_table import TopicTable
from rocketflow_store.metadata.layout.store_meta import StoreMeta
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.healing import end_healing
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.metadata.native.tag_entries import TagEntries
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.recovery.derived_state import LostState, believable, fitted_config, look_at_derived
from rocketflow_store.recovery.derived_swap import finish_swap
from rocketflow_store.recovery.durability import make_derived_durable, make_log_durable
from rocketflow_store.recovery.odd_files import make_last_files_whole
from rocketflow_store.recovery.positions import clamp_positions
from rocketflow_store.recovery.recovery import Recovery, RecoveryResult, refuse_unfit
from rocketflow_store.recovery.take_stop_record import leave_stop_record
from rocketflow_store.recovery.topic_deletion import finish_deletions, fit_floors, note_vanished
from rocketflow_store.telemetry import events
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.dispatch.side_queues import SideQueues
from rocketflow_store.views.index.derived_profile import profile_to_write
from rocketflow_store.views.index.index_service import IndexService
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.queue_offsets import QueueOffsets
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.log_directories import LogDirectories
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.settings.store_config import StoreConfig

_FAR_AHEAD_MS: Final = 24 * 3_600_000
"""So far a clock may have been set back: what is told beyond is what damage made of it."""


@dataclass(slots=True)
class StoreParts:
    """What an open store is made of; `store_timestamp` is that of the newest message (ms)."""

    paths: StorePaths
    config: StoreConfig
    meta: StoreMeta
    allocator: AllocateMappedFileService
    files: MappedFileQueue
    log: CommitLogView
    queues: FileQueueTable
    batch_queues: BatchQueueTable
    side_queues: SideQueues
    index: IndexService
    dispatcher: Dispatcher
    checkpoint: CheckpointFields
    config_files: ConfigFiles
    topics: TopicTable
    recovery: RecoveryResult
    store_timestamp: int
    commit_log: CommitLog
    buffered: BufferedFiles | None
    fence: Fence
    flush: GroupFlush
    offsets: QueueOffsets
    dispatched_phy_offset: int = 0
    """Physical offset of the last record that has a ConsumeQueue unit; 0 without any."""
    tag_entries: TagEntries = field(default_factory=TagEntries)
    """Where the index names the TAGS of every record, as of the open."""

    @property
    def indexes_tags(self) -> bool:
        """Whether what is dispatched gets index entries for its TAGS."""
        return self.config.tag_entries and self.config.message_index_enable

    @property
    def sync_flush(self) -> bool:
        """Whether a message counts only once it is synced."""
        return self.config.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def least_timestamp(self) -> int:
        """Store time (ms) that no later record may fall behind: the newest one's, though it may be gone."""
        return max(self.store_timestamp, self.recovery.told_timestamp)

    def sync_everything(self) -> None:
        """Make the newest log files, every queue and the index durable."""
        for mapped in self.files.files[-2:]:
            mapped.sync()
        sync_together([self.index.sync, *(queue.sync for queue in self.queues.unsynced())])
        self.batch_queues.sync()

    def close_files(self) -> None:
        """Close every file."""
        if self.buffered is not None:
            self.buffered.close()
        self.queues.close()
        self.batch_queues.close()
        self.index.close()
        self.files.close()


def open_parts(paths: StorePaths, config: StoreConfig) -> StoreParts:
    """Create or recover the store whose directory the caller has locked; on an error no file stays open."""
    with ExitStack() as on_error:
        parts = _open_parts(paths, config, on_error)
        on_error.pop_all()
    return parts


def _open_parts(paths: StorePaths, config: StoreConfig, on_error: ExitStack) -> StoreParts:
    finish_swap(paths)
    config = fitted_config(paths, config)
    directories = paths.log_directories()
    lost = look_at_derived(paths, config)
    meta = StoreMeta.load_or_create(paths, config, lambda recorded: profile_to_write(paths, config, recorded))
    known_tags = known_tag_entries(paths, paths.index)
    config = replace(config, profile=meta.profile)
    if config.enabled_append_prop_crc is None:
        config = replace(config, enabled_append_prop_crc=meta.append_prop_crc)
    for directory in (*directories.writable, paths.rocketflow, paths.config):
        os_files.make_directory(directory)
    allocator = _make_allocator(directories, config)
    if paths.abort.exists():
        make_last_files_whole(paths, config)
    files = MappedFileQueue(directories, config.mapped_file_size_commit_log, write=True, allocator=allocator)
    on_error.callback(files.close)
    refuse_unfit(paths, files, lost.record)
    finish_deletions(paths, ConfigFiles(paths.config, config.clock))
    try:
        lost.set_aside(paths)
    except OSError as error:
        raise os_files.access_error(paths.quarantine, error) from error
    os_files.make_directory(paths.consume_queue)
    log = CommitLogView(files, readable_range(paths))
    queues = FileQueueTable(paths.consume_queue, config.mapped_file_size_consume_queue, log, write=True)
    on_error.callback(queues.close)
    queues.refresh()
    index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=True)
    on_error.callback(index.close)
    config_files = ConfigFiles(paths.config, config.clock)
    topics = TopicTable(config_files.topics, config.default_topic_queue_nums)
    batch_queues = BatchQueueTable(paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue, write=True)
    on_error.callback(batch_queues.close)
    batch_queues.refresh()
    for key in lost.light_queues:
        queues.restore(*key)
    for key in lost.all_batch_queues:
        batch_queues.add(*key)
    side = SideQueues(queues, batch_queues, topics.is_batch_cq, multi_dispatch=config.enable_multi_dispatch)
    indexed = index if config.message_index_enable else None
    dispatcher = Dispatcher(queues, indexed, side, tag_entries=config.tag_entries)
    checkpoint = _read_checkpoint(paths)
    recovery = _recover(paths, config, files, log, queues, batch_queues, index, dispatcher, checkpoint, lost)
    clamp_positions(paths, config_files, queues, batch_queues)
    buffered = None
    if config.transient_store_pool_used:
        pool = TransientStorePool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
        buffered = BufferedFiles(pool, fail_fast=config.fast_fail_if_no_buffer_in_store_pool)
    dispatched_timestamp, dispatched_phy_offset = _last_dispatched(queues, batch_queues, log)
    store_timestamp = max(dispatched_timestamp, recovery.newest_timestamp)
    believable(checkpoint, store_timestamp, recovery.truncated_to)
    _note_queues(paths, config, checkpoint, dispatched_phy_offset, recovery.truncated_to)
    tags = known_tags
    if config.tag_entries and config.message_index_enable:
        tags = tags.extended(recovery.indexed_from, recovery.truncated_to)
    commit_log = CommitLog(files, recovery.truncated_to, buffered)
    fence = Fence(paths.root, commit_log)
    return StoreParts(
        paths=paths,
        config=config,
        meta=meta,
        allocator=allocator,
        files=files,
        log=log,
        queues=queues,
        batch_queues=batch_queues,
        side_queues=side,
        index=index,
        dispatcher=dispatcher,
        checkpoint=checkpoint,
        config_files=config_files,
        topics=topics,
        recovery=recovery,
        store_timestamp=store_timestamp,
        commit_log=commit_log,
        buffered=buffered,
        fence=fence,
        flush=GroupFlush(commit_log, fence, paths.root),
        dispatched_phy_offset=dispatched_phy_offset,
        tag_entries=tags,
        offsets=QueueOffsets(
            lambda topic, queue_id: (batch_queues if side.is_batch_cq(topic) else queues).end(topic, queue_id)
        ),
    )


def _make_allocator(directories: LogDirectories, config: StoreConfig) -> AllocateMappedFileService:
    sync = config.flush_disk_type is FlushDiskType.SYNC_FLUSH
    allocator = AllocateMappedFileService(
        directories,
        config.mapped_file_size_commit_log,
        warm=config.warm_maped_file_enable,
        warm_sync_bytes=config.flush_least_pages_when_warm_maped_file * PAGE_BYTES if sync else 0,
    )
    allocator.discard_left_overs()
    return allocator


def _read_checkpoint(paths: StorePaths) -> CheckpointFields:
    try:
        return decode_checkpoint(os_files.read_file(paths.checkpoint))
    except FileNotFoundError:
        return CheckpointFields()
    except OSError as error:
        raise os_files.access_error(paths.checkpoint, error) from error


def _recover(
    paths: StorePaths,
    config: StoreConfig,
    files: MappedFileQueue,
    log: CommitLogView,
    queues: FileQueueTable,
    batch_queues: BatchQueueTable,
    index: IndexService,
    dispatcher: Dispatcher,
    checkpoint: CheckpointFields,
    lost: LostState,
) -> RecoveryResult:
    abort_found = paths.abort.exists()
    recovery = Recovery(
        paths,
        files,
        log,
        queues,
        batch_queues,
        config.delay_levels_ms,
        check_crc=config.check_crc_on_recover,
        max_message_size=config.max_message_size,
    )
    confirmed = read_confirm(paths) if abort_found else None
    start = recovery.scan_start(abort_found, confirmed, lost)
    end = recovery.find_end(start, foreign=abort_found and confirmed is None)
    truncated_from, truncated_to = end.offset, end.offset
    if abort_found:
        truncated_from, truncated_to = recovery.cut(end)
        recovery.cut_queues(end.offset)
        index.recover(start, log.store_timestamp_at)
    elif end.offset > start or recovery.written_end(end.offset) > end.offset:
        truncated_from, truncated_to = recovery.cut(end)
    if abort_found or lost.unfinished is not None:
        batch_queues.cut(start)  # units behind the durable frontier may have holes: they are made again
    batch_queues.cut_beyond(end.offset)
    if not abort_found and lost.record is not None and end.offset < lost.record.end_phy_offset:
        index.recover(end.offset, log.store_timestamp_at)
    if confirmed is not None and confirmed.confirm_offset > end.offset:
        why = "acknowledged, and not on the disk when the power went (ASYNC_FLUSH): bytes"
        gone = confirmed.confirm_offset - end.offset
        events.tell(events.LOST, paths.root, paths.commit_log, why, offset=end.offset, count=gone)
    indexed_from = max(start, index.next_phy_offset)
    dispatched = recovery.dispatch(start, end.offset, dispatcher)
    shrunk = recovery.keep_ends(lost, end.offset)
    if abort_found or dispatched or shrunk:
        queues.forget()
        rewrite_from = end.offset if confirmed is None else min(confirmed.durable_offset, end.offset)
        make_log_durable(files, rewrite_from, end.offset)
        make_derived_durable(paths, queues, batch_queues, index, unclean=abort_found)
    note_vanished(paths, lost.deleted_topics, end.offset)
    fit_floors(paths, log.min_phy_offset, end.offset)
    if lost or shrunk:
        leave_stop_record(paths, config, queues, batch_queues, index, files, end.offset)
    if lost:
        end_healing(paths)
    if end.offset > start or abort_found:
        checkpoint.confirm_phy_offset = max(end.offset, 0)
    told = _told_timestamp(config, checkpoint, confirmed, lost)
    known_end = max(
        lost.record.end_phy_offset if lost.record is not None else 0,
        confirmed.durable_offset if confirmed is not None else 0,
    )
    return RecoveryResult(
        abort_found,
        start,
        truncated_from,
        truncated_to,
        dispatched,
        0.0,
        recovery.quarantined,
        lost.names,
        max(recovery.newest_timestamp, told if end.offset >= known_end else 0),
        told,
        indexed_from,
    )


def _told_timestamp(
    config: StoreConfig, checkpoint: CheckpointFields, confirmed: Confirmed | None, lost: LostState
) -> int:
    """Store time (ms) of the newest record as the last writer of ours told: it may be in no queue."""
    told = checkpoint.physic_msg_timestamp if lost.same_writer else 0
    if confirmed is not None and confirmed.durable_timestamp <= config.clock.now_ms() + _FAR_AHEAD_MS:
        told = max(told, confirmed.durable_timestamp)
    return told


def _last_dispatched(queues: FileQueueTable, batch_queues: BatchQueueTable, log: CommitLogView) -> tuple[int, int]:
    """Return the store time (ms) and the physical offset of the newest message of any queue; zeros without any.

    Later ones must not fall behind that time.
    """
    newest = newest_offset = 0
    for units in (queues.last_units(), batch_queues.last_units()):
        times = log.store_timestamps(units)  # -1: there is no such record
        newest = max(newest, int(times.max(initial=0)))
        newest_offset = max(newest_offset, int(units["phy_offset"][times >= 0].max(initial=0)))
    return newest, newest_offset


def _note_queues(
    paths: StorePaths, config: StoreConfig, checkpoint: CheckpointFields, phy_offset: int, log_end: int
) -> None:
    """Correct in the checkpoint how far queues are durable: a broker that comes after a kill would begin there."""
    wanted = logics_physical_offset(phy_offset, log_end) if config.tag_entries else 0
    if checkpoint.logics_physical_offset != wanted:
        checkpoint.logics_physical_offset = wanted
        os_files.write_atomically(paths.checkpoint, checkpoint.encode())
