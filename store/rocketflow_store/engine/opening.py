"""The open of a store for writing: its parts are recovered and assembled before any thread runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rocketflow_store.engine.derived_views import DerivedViews
from rocketflow_store.engine.log_writer import LogWriter
from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService
from rocketflow_store.files.mapped.mapped_file import PAGE_BYTES
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.record_crc_range import readable_range
from rocketflow_store.metadata.config_files.topic_table import TopicTable
from rocketflow_store.metadata.layout.store_meta import StoreMeta
from rocketflow_store.metadata.native.known_tag_entries import tag_entries_of
from rocketflow_store.model.status import FlushDiskType
from rocketflow_store.recovery.decide import Step, decide, decide_log
from rocketflow_store.recovery.derived_swap import finish_swap
from rocketflow_store.recovery.fit_log import refuse_unfit
from rocketflow_store.recovery.observation import observe
from rocketflow_store.recovery.odd_files import complete_last_files
from rocketflow_store.recovery.recovery import STEPS, LogWalk, OpenedLog, Recovery
from rocketflow_store.recovery.topic_deletion import finish_deletions
from rocketflow_store.views.dispatch.dispatcher import Dispatcher
from rocketflow_store.views.index.derived_profile import profile_to_write
from rocketflow_store.views.queues.queue_offsets import QueueOffsets

if TYPE_CHECKING:
    from contextlib import ExitStack

    from rocketflow_store.files.mapped.log_directories import LogDirectories
    from rocketflow_store.files.read_once import ReadFile
    from rocketflow_store.format.checkpoint_layout import CheckpointFields
    from rocketflow_store.metadata.config_files import ConfigFiles
    from rocketflow_store.metadata.layout.store_paths import StoreLock, StorePaths
    from rocketflow_store.metadata.native.tag_entries import TagEntries
    from rocketflow_store.recovery.observation import Observation
    from rocketflow_store.recovery.result import RecoveryResult
    from rocketflow_store.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class StoreParts:
    """Parts of an open store."""

    paths: StorePaths
    config: StoreConfig
    meta: StoreMeta
    allocator: AllocateMappedFileService
    files: MappedFileQueue
    log: CommitLogView
    views: DerivedViews
    dispatcher: Dispatcher
    checkpoint: CheckpointFields
    config_files: ConfigFiles
    topics: TopicTable
    recovery: RecoveryResult
    writer: LogWriter
    offsets: QueueOffsets
    tag_entries: TagEntries
    """Range of the log in which the index names the TAGS of every record, as of the open."""

    @property
    def indexes_tags(self) -> bool:
        """True if dispatched records get index entries for their TAGS."""
        return self.config.tag_entries and self.config.message_index_enable

    @property
    def least_timestamp(self) -> int:
        """Store time (ms) below which no later record may be: that of the newest one, even if it is lost."""
        return max(self.recovery.store_timestamp, self.recovery.recorded_timestamp)

    def sync_everything(self) -> None:
        """Make the newest log files, every queue and the index durable."""
        for mapped in self.files.files[-2:]:
            mapped.sync()
        self.views.sync()

    def close_files(self) -> None:
        """Close every file."""
        if self.writer.buffered is not None:
            self.writer.buffered.close()
        self.views.close()
        self.files.close()


def open_parts(
    paths: StorePaths, config: StoreConfig, on_error: ExitStack, read: ReadFile, lock: StoreLock
) -> StoreParts:
    """Create or recover the store in the locked directory; `on_error` closes the opened files."""
    found = observe(paths, config, read)
    steps = decide(found.found)
    while Step.OBSERVE_AGAIN in steps:
        finish_swap(paths)
        found = observe(paths, config, read)
        steps = decide(found.found)
    preparation = _Preparation(found, on_error, read, lock)
    for step in steps[:-1]:
        preparation.run(step)
    config, files = preparation.config, preparation.files
    found = replace(found, config=config)
    os_files.make_directory(paths.consume_queue)
    log = CommitLogView(files, readable_range(paths))
    topics = TopicTable(found.config_files.topics, config.default_topic_queue_nums)
    views = DerivedViews.open(paths, config, log, topics.is_batch_cq, on_error)
    views.queues.refresh()
    views.batch_queues.refresh()
    for key in found.lost.lmqs:
        views.queues.restore(*key)
    for key in found.lost.all_batch_queues:
        views.batch_queues.add(*key)
    indexed = views.index if config.message_index_enable else None
    dispatcher = Dispatcher(views.queues, indexed, views.side_queues, tag_entries=config.tag_entries)
    checkpoint, opened = found.checkpoint_fields(), OpenedLog(files, log, views.queues, views.batch_queues)
    walk = LogWalk(found, opened)
    walked = walk.run(steps[-1])
    steps += decide_log(found.found, walk.found(walked))
    run = Recovery(found, opened, views.index, dispatcher, walk, walked, checkpoint)
    for step in steps:
        if step in STEPS:
            STEPS[step](run)
    recovery = run.result
    recovery.steps = steps
    return StoreParts(
        *(paths, config, preparation.meta, preparation.allocator, files, log, views, dispatcher),
        *(checkpoint, found.config_files, topics, recovery),
        writer=LogWriter.open(paths.root, config, files, recovery.truncated_to, on_error),
        offsets=QueueOffsets(views.end),
        tag_entries=_tag_entries(config, preparation.known_tags, recovery),
    )


class _Preparation:
    """The steps before the log is walked."""

    meta: StoreMeta
    allocator: AllocateMappedFileService
    files: MappedFileQueue

    def __init__(self, found: Observation, on_error: ExitStack, read: ReadFile, lock: StoreLock) -> None:
        self._found, self._on_error, self._read, self._lock = found, on_error, read, lock
        self._directories = found.paths.log_directories()
        """Shared by the log and its allocator, which both must know full disks."""
        self.config = found.config
        self.known_tags = tag_entries_of(found.stop.record, found.stop.confirmed, found.paths.index)

    def run(self, step: Step) -> None:
        """Run one step."""
        found, paths = self._found, self._found.paths
        if step is Step.RECORD_STORE:
            self._record_store()
        elif step is Step.COMPLETE_LAST_FILES:
            complete_last_files(paths, self.config)
        elif step is Step.CHECK_LOG_FILES:
            self._open_log()
            refuse_unfit(paths, self.files, found.stop.record)
        elif step is Step.FINISH_DELETIONS:
            finish_deletions(paths, found.config_files)
        elif step is Step.QUARANTINE:
            try:
                found.lost.quarantine(paths)
            except OSError as error:
                raise os_files.access_error(paths.quarantine, error) from error

    def _record_store(self) -> None:
        paths, config = self._found.paths, self.config
        self.meta = StoreMeta.load_or_create(
            paths, config, lambda recorded: profile_to_write(paths, config, recorded), self._read
        )
        crc = config.enabled_append_prop_crc
        self.config = replace(
            config,
            profile=self.meta.profile,
            enabled_append_prop_crc=self.meta.append_prop_crc if crc is None else crc,
        )
        for directory in (*self._directories.writable, paths.rocketflow, paths.config):
            os_files.make_directory(directory)
        self._lock.hold()  # those that are new, before anything is written to them
        self.allocator = _make_allocator(self._directories, self.config)

    def _open_log(self) -> None:
        size = self.config.mapped_file_size_commit_log
        self.files = MappedFileQueue(self._directories, size, write=True, allocator=self.allocator)
        self._on_error.callback(self.files.close)


def _tag_entries(config: StoreConfig, known: TagEntries, recovery: RecoveryResult) -> TagEntries:
    if config.tag_entries and config.message_index_enable:
        return known.extended(recovery.indexed_from, recovery.truncated_to)
    return known


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
