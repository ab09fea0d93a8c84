"""The write paths of an open store: single puts, puts without waiting, rows and commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.append.acknowledgement import Acknowledgement
from rocketflow_store.append.assigned_properties import AssignedProperties
from rocketflow_store.append.async_put import AsyncPut
from rocketflow_store.append.bulk_append import BulkAppend
from rocketflow_store.append.log_append import LogAppend
from rocketflow_store.append.put_path import PutPath
from rocketflow_store.append.put_route import RouteTargets
from rocketflow_store.append.queue_choice import QueueChoice
from rocketflow_store.append.raw_append import RawAppend
from rocketflow_store.append.write_gate import WriteGate
from rocketflow_store.metadata.native.confirm import ConfirmFile
from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.telemetry.statistics import StoreStatistics


@dataclass(frozen=True, slots=True)
class Writing:
    """The write paths; all of them share one put lock and one append to the log."""

    puts: PutPath
    later: AsyncPut
    bulk: BulkAppend
    raw: RawAppend

    @classmethod
    def of(
        cls,
        parts: StoreParts,
        dispatch: ConfirmedDispatch,
        statistics: StoreStatistics,
        disk_full: Callable[[], bool],
        appended: Callable[[], None] | None,
    ) -> Self:
        """Assemble the write paths; `appended` is called after puts without a waiting caller."""
        path, config, side = parts.paths.root, parts.config, parts.views.side_queues
        commit_log, fence, flush = parts.writer.commit_log, parts.writer.fence, parts.writer.flush
        assigned = AssignedProperties(config, side.is_batch_cq, parts.views.queues)
        log_append = LogAppend(
            *(commit_log, parts.offsets, assigned, dispatch, fence, statistics),
            *(config.clock, parts.least_timestamp),
        )
        choice = QueueChoice(parts.topics, parts.offsets)
        gate = WriteGate(path, config, commit_log, fence, dispatch, disk_full)
        acknowledgement = Acknowledgement(flush, dispatch, statistics, config, appended)
        puts = PutPath(path, config, log_append, choice, gate, acknowledgement, statistics, side)
        most = config.max_async_put_message_requests
        index = parts.views.index if config.message_index_enable else None
        puts.route_single_puts(dispatch, RouteTargets(parts.topics.counts, parts.views.queues, index, disk_full))
        later = AsyncPut(path, puts, acknowledgement, log_append, statistics, most)
        bulk = BulkAppend(config, parts.topics, puts, log_append, choice, gate, acknowledgement)
        return cls(puts, later, bulk, RawAppend(puts, gate, acknowledgement, statistics))

    def close(self) -> None:
        """Store the waiting puts, and accept no more."""
        self.later.close()
        self.puts.close()


def confirmed_dispatch(parts: StoreParts) -> ConfirmedDispatch:
    """Return the dispatch of records from the log's end on; its confirm file is created."""
    end, sync_flush = parts.writer.commit_log.committed_offset, parts.config.sync_flush
    confirm_file = ConfirmFile(
        parts.paths,
        end,
        end,
        synced=sync_flush,
        record_crc=parts.config.append_prop_crc,
        timestamp=parts.least_timestamp,
        tag_entries_from=parts.tag_entries.last_from(end) if parts.indexes_tags else -1,
    )
    recovery, writer = parts.recovery, parts.writer
    writer.fence.on_close = confirm_file.note_failed_sync
    dispatch = ConfirmedDispatch(
        *(parts.paths.root, parts.dispatcher, parts.views.index, parts.log),
        *(writer.commit_log, writer.fence, confirm_file),
        (recovery.store_timestamp, recovery.dispatched_phy_offset),
        sync_flush=sync_flush,
    )
    if sync_flush:
        writer.flush.synced = dispatch.follow_for_all
    return dispatch
