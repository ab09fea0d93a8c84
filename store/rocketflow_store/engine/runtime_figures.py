"""Statistics of a writing store, under the names of RocketMQ's `getRuntimeInfo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rocketflow_store.files import os_files
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from rocketflow_store.engine.clean_service import CleanService
    from rocketflow_store.engine.log_writer import LogWriter
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.files.mapped.allocate_ahead import AllocateMappedFileService
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.recovery.result import RecoveryResult
    from rocketflow_store.telemetry.statistics import StoreStatistics


def runtime_figures(
    parts: StoreParts, statistics: StoreStatistics, clean: CleanService, confirm_offset: int
) -> dict[str, Any]:
    """Return all figures: times in ms, sizes in bytes, disk ratios as shares of 1 (-1 if unknown)."""
    config, commit_log, now_ms = parts.config, parts.writer.commit_log, parts.config.clock.now_ms()
    return {
        **statistics.as_dict(now_ms, commit_log.wrote_offset - parts.recovery.truncated_to),
        "commitLogMinOffset": parts.log.min_phy_offset,
        "commitLogMaxOffset": commit_log.committed_offset,
        "dispatchBehindBytes": commit_log.wrote_offset - confirm_offset,
        **_pool_figures(parts.writer),
        "remainHowManyDataToFlush": commit_log.committed_offset - commit_log.flushed_offset,
        "isOSPageCacheBusy": statistics.page_cache_busy(now_ms, config.os_page_cache_busy_time_out_mills),
        **_disk_figures(parts.paths),
        "diskFull": clean.disk_full,
        "fenced": parts.writer.fence.error is not None,
        **_allocation_figures(parts.allocator),
        **_retention_figures(clean),
        "events": events.counts(parts.paths.root),
        "recovery": _recovery_figures(parts.recovery),
    }


def _pool_figures(writer: LogWriter) -> dict[str, Any]:
    pool = None if writer.buffered is None else writer.buffered.pool
    if pool is None:
        return {}
    return {
        "transientStorePoolSize": pool.size,
        "transientStorePoolLocked": pool.locked,
        "remainTransientStoreBufferNumbs": pool.available,
        "remainHowManyDataToCommit": writer.commit_log.wrote_offset - writer.commit_log.committed_offset,
    }


def _disk_figures(paths: StorePaths) -> dict[str, Any]:
    logs = {str(one): os_files.disk_used_percent(one) for one in paths.commit_logs}
    percent = {
        "commitLogDiskRatio": min(logs.values()),
        **({f"commitLogDiskRatio_{path}": one for path, one in logs.items()} if len(logs) > 1 else {}),
        "consumeQueueDiskRatio": os_files.disk_used_percent(paths.consume_queue),
    }
    return {name: one if one < 0 else one / 100 for name, one in percent.items()}


def _allocation_figures(allocator: AllocateMappedFileService) -> dict[str, Any]:
    return {
        "mappedFilesMadeAhead": allocator.preallocated,
        "mappedFilesMadeLate": allocator.allocated_on_demand,
        "mappedFilesLocked": len(allocator.locked.offsets),
    }


def _retention_figures(clean: CleanService) -> dict[str, Any]:
    removed = clean.removed
    files = len(removed.log_files) + len(removed.queue_files) + len(removed.index_files)
    return {"removedFiles": files, "removedBytes": removed.bytes}


def _recovery_figures(recovery: RecoveryResult) -> dict[str, Any]:
    return {
        "abortFound": recovery.abort_found,
        "scannedFrom": recovery.scanned_from,
        "truncatedFrom": recovery.truncated_from,
        "truncatedTo": recovery.truncated_to,
        "dispatched": recovery.dispatched,
        "quarantined": len(recovery.quarantined),
        "seconds": recovery.seconds,
    }
