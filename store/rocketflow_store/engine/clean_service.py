"""Execution of retention: RocketMQ's CleanCommitLogService and CleanConsumeQueueService.

`retention` decides; this module deletes, oldest first, so that the remaining files are one range whenever the process
ends: log files before the queue and index files that point at them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.engine.retention import (
    DiskPressure,
    FileAge,
    clean_reason,
    disk_pressure,
    expired_index_files,
    expired_log_files,
    expired_queue_files,
)
from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rocketflow_store.engine.derived_views import DerivedViews
    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.reading.store_reader import StoreReader
    from rocketflow_store.settings.store_config import StoreConfig

_QUEUE_FORCIBLY_MS: Final = 60_000
_WITHOUT_LIMIT: Final = 1 << 20


@dataclass(slots=True)
class CleanResult:
    """Files that were deleted, or would be; sizes in bytes."""

    log_files: list[Path] = field(default_factory=list)
    queue_files: list[Path] = field(default_factory=list)
    index_files: list[Path] = field(default_factory=list)
    bytes: int = 0
    min_phy_offset: int = 0
    disk_used_percent: int = -1

    def add(self, other: CleanResult) -> None:
        """Add the files of another round, and take over its state of the store."""
        self.log_files += other.log_files
        self.queue_files += other.queue_files
        self.index_files += other.index_files
        self.bytes += other.bytes
        self.min_phy_offset, self.disk_used_percent = other.min_phy_offset, other.disk_used_percent


@dataclass(frozen=True, slots=True)
class CleanGuards:
    """Conditions of a writing store for deletions."""

    removable_to: Callable[[], int]
    """Return the physical offset below which the log is durable and dispatched."""
    dispatch_lock: AbstractContextManager[object]
    """Lock that keeps queue and index files unchanged while they are deleted."""
    before_removal: Callable[[int], None]
    """Called with the physical offset before which records are about to be deleted."""


class CleanService:
    """Deletes files that retention no longer keeps; one caller at a time."""

    def __init__(
        self, paths: StorePaths, files: MappedFileQueue, views: DerivedViews, config: StoreConfig, guards: CleanGuards
    ) -> None:
        self._paths, self._files, self._views, self._config, self._guards = paths, files, views, config, guards
        self.disk_used_percent: Callable[[Path], int] = os_files.disk_used_percent
        self.disk_full = False
        """True if puts are refused: the disk is used beyond `diskSpaceWarningLevelRatio`."""
        self._followed = -1
        self._redeleted_ms = 0
        self.removed = CleanResult()
        """Files that were deleted since the store was opened."""

    def step(self, pause: Callable[[float], bool] = lambda _: False, *, manual: bool = False) -> CleanResult:
        """Run one round: read the disk usage, delete log files if it is time, then the files that pointed at them.

        `pause(seconds)` waits between files and returns True to stop.
        """
        config, now_ms = self._config, self._config.clock.now_ms()
        used_percent, pressure = self.look_at_disk()
        result = CleanResult(disk_used_percent=used_percent)
        reason = clean_reason(now_ms, pressure, config, manual=manual)
        if reason is not None:
            count = expired_log_files(
                ages_of(self._files.files), now_ms, pressure, config, removable_to=self._guards.removable_to()
            )
            self._remove_log_files(count, now_ms, pause, result)
        self._redelete(now_ms, result)
        first = self._files.first
        result.min_phy_offset = first.file_from_offset if first else 0
        first_offset = self._files.first_offset  # a held file may return, and needs the units that point at it
        if first_offset > self._followed:
            self._follow(first_offset, now_ms, pause, result)
            self._followed = first_offset
        self.removed.add(result)
        return result

    def remove_retired(self) -> None:
        """Delete the retired files at the end of the store; readers that hold them keep their data."""
        retired = sum(mapped.retired for mapped in self._files.files)
        self._files.remove_first(retired, self._config.clock.now_ms(), 0)

    def clean_batch_queues(self) -> list[Path]:
        """Delete files of BatchCQ topics' queues that point below the log; return them."""
        config = self._config
        with self._guards.dispatch_lock:
            return self._views.batch_queues.remove_below(
                self._files.first_offset, config.clock.now_ms(), config.destroy_maped_file_interval_forcibly
            )

    def look_at_disk(self) -> tuple[int, DiskPressure]:
        """Return (percent of the disk in use, what that means), and give full disks no new files.

        The fuller of the log's and the queues' disk counts; of several disks with CommitLog files the emptiest counts.
        """
        directories = self._files.directories
        used = {path: self.disk_used_percent(path) for path in directories.writable}
        directories.full = [path for path, one in used.items() if disk_pressure(one, self._config).cleans_forcibly]
        both = min(used.values()), self.disk_used_percent(self._paths.consume_queue)
        pressure = max((disk_pressure(one, self._config) for one in both), key=lambda one: one.value)
        self.disk_full = pressure is DiskPressure.FULL
        return max(both), pressure

    def _remove_log_files(self, count: int, now_ms: int, pause: Callable[[float], bool], result: CleanResult) -> None:
        config = self._config
        if count:
            self._guards.before_removal(self._files.files[count - 1].end_offset)
        for number in range(count):
            if number and pause(config.delete_commit_log_files_interval / 1000):
                return
            removed = self._files.remove_first(1, now_ms, config.destroy_maped_file_interval_forcibly)
            if not removed:
                return
            result.log_files += [mapped.path for mapped in removed]
            result.bytes += sum(mapped.file_size for mapped in removed)

    def _redelete(self, now_ms: int, result: CleanResult) -> None:
        """Try again to delete files that a reader held."""
        config = self._config
        if 0 <= now_ms - self._redeleted_ms < config.redelete_hanged_file_interval:
            return
        self._redeleted_ms = now_ms
        if any(mapped.retired for mapped in self._files.files[:1]):
            self._remove_log_files(1, now_ms, lambda _: False, result)

    def _follow(self, min_phy_offset: int, now_ms: int, pause: Callable[[float], bool], result: CleanResult) -> None:
        """Delete the queue and index files of deleted records."""
        for queue in self._views.queues.all():
            if queue.file_count < 2:
                continue
            with self._guards.dispatch_lock:
                count = expired_queue_files(queue.last_phy_offsets(), min_phy_offset)
                removed = queue.remove_first(count, now_ms, _QUEUE_FORCIBLY_MS)
            result.queue_files += removed
            result.bytes += len(removed) * queue.file_size
            if removed and pause(self._config.delete_consume_queue_files_interval / 1000):
                return
        with self._guards.dispatch_lock:
            files = self._views.index.files
            count = expired_index_files([one.header.end_phy_offset for one in files], min_phy_offset)
            result.index_files += self._views.index.remove_first(count)
        result.bytes += count * self._config.index_file_size


def ages_of(files: Sequence[MappedFile]) -> list[FileAge]:
    """Return the properties of log files that the decision needs."""
    return [FileAge(one.file_from_offset, one.end_offset, one.modified_ms()) for one in files]


def preview_clean(reader: StoreReader, config: StoreConfig) -> CleanResult:
    """Return what a manual clean-up would delete now; if the disk is too full, what its first round would."""
    logs = [os_files.disk_used_percent(path) for path in reader.paths.log_directories().writable]
    used_percent = max(min(logs), os_files.disk_used_percent(reader.paths.consume_queue))
    pressure = disk_pressure(used_percent, config)
    if pressure in (DiskPressure.NONE, DiskPressure.OVER_MAX):
        config = replace(config, delete_file_batch_max=_WITHOUT_LIMIT)
    end = reader.max_phy_offset
    files = reader.log_files
    count = expired_log_files(ages_of(files), config.clock.now_ms(), pressure, config, removable_to=end)
    result = CleanResult([one.path for one in files[:count]], disk_used_percent=used_percent)
    result.min_phy_offset = files[count].file_from_offset if files else 0
    for topic in reader.topics():
        for queue_id in reader.queues(topic):
            queue = reader.find(topic, queue_id)
            if queue is not None:
                result.queue_files += queue.paths[
                    : expired_queue_files(queue.last_phy_offsets(), result.min_phy_offset)
                ]
    reader.index.refresh()
    index = reader.index.files
    expired = expired_index_files([one.header.end_phy_offset for one in index], result.min_phy_offset)
    result.index_files += [one.path for one in index[:expired]]
    result.bytes = sum(os.stat(path).st_size for path in result.log_files + result.queue_files + result.index_files)
    return result
