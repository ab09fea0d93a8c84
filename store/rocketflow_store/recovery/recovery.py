"""The recovery of a store after any stop, to a state that can be appended to.

The walk reads, after a clean stop, only the log after the last queue unit; after an unclean stop of RocketFlow
everything after the durable frontier; after an unclean stop of another writer the whole log. Wall-clock times decide
nothing.

The first bad record that a write may have left incomplete is a torn tail: cut, zeroed, synced. A sink commit whose
rows do not reach its end is cut at its envelope. Every valid record of the walk is dispatched again (its unit and index
entries are a function of the record, so valid ones do not change). Queue units after the end are removed. Cut bytes
that hold valid records are first copied to `quarantine/`.

`decide` returns which of these steps run; each step is one method here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.checkpoint_layout import logics_physical_offset
from rocketflow_store.log.written_end import written_end
from rocketflow_store.metadata.native.confirm import withdraw_cache
from rocketflow_store.metadata.native.healing import end_healing
from rocketflow_store.model.errors import StoreFencedError
from rocketflow_store.recovery.checked_walk import CheckedWalk
from rocketflow_store.recovery.claimed_records import ClaimedRecords
from rocketflow_store.recovery.cut_log import Cut, cut_log, durability_of, worthy_cut
from rocketflow_store.recovery.damage_table import DamageTable
from rocketflow_store.recovery.decide import LogFound, Step
from rocketflow_store.recovery.derived_state import believable
from rocketflow_store.recovery.durability import make_derived_durable, make_log_durable
from rocketflow_store.recovery.log_end import LogEndSearch, known_log
from rocketflow_store.recovery.positions import clamp_positions
from rocketflow_store.recovery.quarantine import LOST, Quarantine
from rocketflow_store.recovery.queue_ends import QueueEnds
from rocketflow_store.recovery.redispatch import KnownQueues, Redispatch, ValidRecords
from rocketflow_store.recovery.result import RecoveryResult, Walked
from rocketflow_store.recovery.take_stop_record import StoppedFiles, leave_stop_record
from rocketflow_store.recovery.topic_deletion import fit_floors, note_vanished
from rocketflow_store.telemetry import events
from rocketflow_store.views.queues.placeholder import LogExtent
from rocketflow_store.views.queues.unit_boundaries import UnitBoundaries

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.format.checkpoint_layout import CheckpointFields
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.recovery.observation import Observation
    from rocketflow_store.views.dispatch.dispatcher import Dispatcher
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable

_FAR_AHEAD_MS: Final = 24 * 3_600_000
"""A clock may have been set back by this much (ms): a later time is damage."""


class OpenedLog(NamedTuple):
    """The opened files that a recovery reads."""

    files: MappedFileQueue
    log: CommitLogView
    queues: FileQueueTable
    batch_queues: BatchQueueTable


class LogWalk:
    """The walk of an observed log: it finds the end of the log, and the damage before it."""

    def __init__(self, found: Observation, opened: OpenedLog) -> None:
        self._found, self._opened = found, opened
        files, log, queues, _ = opened
        config, stop = found.config, found.stop
        self.known = known_log(
            files,
            stop.record,
            stop.confirmed,
            abort_found=stop.abort_found,
            native=found.paths.meta.exists(),
        )
        self.damage = DamageTable(files)
        walk = CheckedWalk(
            files, log, check_crc=config.check_crc_on_recover, record_crc_from=self.known.record_crc_from
        )
        claimed = ClaimedRecords(files, log, queues)
        boundaries = UnitBoundaries(queues.all, config.max_message_size)
        self._written = written_end(files.files, 0)
        self.search = LogEndSearch(files, self.known, walk, claimed, boundaries, self.damage, self._written)
        self.records = ValidRecords(files, self.damage, walk.known_scans)

    def run(self, step: Step) -> Walked:
        """Walk the log from the place that `step` names."""
        opened, confirmed = self._opened, self._found.stop.confirmed
        start, last = opened.log.min_phy_offset, opened.files.last
        log_end = last.end_offset if last else 0
        if step is Step.WALK_FROM_FRONTIER and confirmed is not None:
            start = max(start, confirmed.durable_offset) if confirmed.durable_offset <= log_end else start
        elif step is Step.WALK_FROM_LAST_UNIT:
            start = max(start, opened.queues.max_unit_end(), opened.batch_queues.max_unit_end())
        end = self.search.find_end(start)
        return Walked(start, end, max(self._written, end.offset))

    def cut(self, walked: Walked) -> Cut | None:
        """Return what a cut at the log's end removes, if any of it may be worth something."""
        acknowledged_to = 0 if self.known.clean else self.known.settled
        files, confirmed = self._opened.files, self._found.stop.confirmed
        return worthy_cut(files, self.search, walked, confirmed, acknowledged_to=acknowledged_to)

    def found(self, walked: Walked) -> LogFound:
        """Return the inputs of the tables from the walk."""
        end, stop = walked.end.offset, self._found.stop
        return LogFound(
            tail=end > walked.start or walked.reached > end,
            shortened=stop.record is not None and end < stop.record.end_phy_offset,
            acknowledged_lost=stop.confirmed is not None and end < stop.confirmed.confirm_offset,
        )


class Recovery:
    """The steps after the walk of the log, of a store whose lock the caller holds."""

    def __init__(
        self,
        found: Observation,
        opened: OpenedLog,
        index: IndexService,
        dispatcher: Dispatcher,
        walk: LogWalk,
        walked: Walked,
        checkpoint: CheckpointFields,
    ) -> None:
        self._found, self._opened, self._index, self._dispatcher = found, opened, index, dispatcher
        self._walk, self._walked, self._checkpoint = walk, walked, checkpoint
        self._ends = QueueEnds(found, opened.queues, opened.batch_queues, walk.damage, walk.known.synced)
        record = found.stop.record
        known = KnownQueues(
            found.lost.all_queues,
            frozenset(key for key, one in record.queues.items() if one.end) if record is not None else frozenset(),
            found.stop.deleted.floors,
            found.lost.deleted_topics,
        )
        levels = found.config.delay_levels_ms
        self._redispatch = Redispatch(walk.records, walk.damage, opened.queues, known, levels)
        end = walked.end.offset
        self.result = RecoveryResult(
            found.stop.abort_found,
            walked.start,
            end,
            end,
            quarantined=walk.damage.listed,
            healed=found.lost.names,
            recorded_timestamp=self._recorded_timestamp(),
        )
        self._shrunk = False
        self._cut: Cut | None = None

    def cut_log(self) -> None:
        """Cut the log at its end."""
        self._cut = self._walk.cut(self._walked)
        cut_log(self._found.paths, self._opened.files, self._walk.damage, self._walked, self._cut)
        self.result.truncated_from = self._walked.reached

    def cut_queues(self) -> None:
        """Remove units after the log's end."""
        self._ends.note(self._walked.end.offset)
        self._ends.cut(self._walked.end.offset)

    def cut_index_at_start(self) -> None:
        """Remove index entries from where the walk began."""
        self._index.recover(self._walked.start, self._opened.log.store_timestamp_at)

    def cut_batch_queues_at_start(self) -> None:
        """Remove batch units from where the walk began: there may be gaps between them."""
        self._opened.batch_queues.cut(self._walked.start)

    def cut_batch_queues_at_end(self) -> None:
        """Remove batch units after the log's end."""
        self._opened.batch_queues.cut_beyond(self._walked.end.offset)

    def cut_index_at_end(self) -> None:
        """Remove index entries after the log's end."""
        self._index.recover(self._walked.end.offset, self._opened.log.store_timestamp_at)

    def report_lost(self) -> None:
        """Report bytes that were acknowledged and are not in the log."""
        paths, end, confirmed = self._found.paths, self._walked.end.offset, self._found.stop.confirmed
        if confirmed is not None:
            kept = 0 if self._cut is None else self._cut.records
            durable = durability_of(end, confirmed)
            why = f"bytes of acknowledged messages; quarantine/ has {kept} complete records of them; {durable}"
            count = confirmed.confirm_offset - end
            events.report(events.LOST, paths.root, paths.commit_log, why, offset=end, count=count)

    def dispatch(self) -> None:
        """Dispatch every valid record of the walk; copy damage to the quarantine and fill its slots."""
        start, end = self._walked.start, self._walked.end.offset
        self.result.indexed_from = max(start, self._index.next_phy_offset)
        self.result.dispatched, ends = self._redispatch.run(start, end, self._dispatcher)
        self._walk.damage.keep_copies(self._found.paths)
        self._redispatch.fill_slots(ends, self._extent)

    def keep_ends(self) -> None:
        """Report the bytes lost since the last orderly stop; keep synced queue offsets from being assigned again."""
        self._report_missing()
        self._shrunk = bool(self._ends.keep(self._extent))

    def sync(self) -> None:
        """Sync everything that exists, whatever the stop left in the system's cache."""
        opened, confirmed = self._opened, self._found.stop.confirmed
        opened.queues.forget()
        end = self._walked.end.offset
        unclean = self._found.stop.abort_found
        try:
            make_log_durable(opened.files, end if confirmed is None else min(confirmed.durable_offset, end), end)
            make_derived_durable(self._found.paths, opened.queues, opened.batch_queues, self._index, unclean=unclean)
        except StoreFencedError:
            if confirmed is not None:
                withdraw_cache(self._found.paths)
            raise

    def sync_changes(self) -> None:
        """Sync everything if something was changed."""
        if self.result.dispatched or self._shrunk:
            self.sync()

    def note_topics(self) -> None:
        """Note topics that another writer deleted; drop notes that the log does not need anymore."""
        paths, end = self._found.paths, self._walked.end.offset
        note_vanished(paths, self._found.lost.deleted_topics, end)
        fit_floors(paths, self._opened.log.min_phy_offset, end)

    def record_stop(self) -> None:
        """Record what the store has now."""
        files, _, queues, batch_queues = self._opened
        found, end = self._found, self._walked.end.offset
        leave_stop_record(found.paths, found.config, StoppedFiles(files, queues, batch_queues, self._index), end)

    def record_stop_if_lost(self) -> None:
        """Record what the store has now if queues lack messages."""
        if self._shrunk:
            self.record_stop()

    def end_rebuild(self) -> None:
        """Note that queues and index are complete and durable."""
        end_healing(self._found.paths)

    def clamp_positions(self) -> None:
        """Move positions after a queue's end back to it."""
        opened = self._opened
        clamp_positions(self._found.paths, self._found.config_files, opened.queues, opened.batch_queues)

    def fit_checkpoint(self) -> None:
        """Correct the checkpoint, from whose times RocketMQ's recovery after a kill would begin."""
        found, result, fields, opened = self._found, self.result, self._checkpoint, self._opened
        end, known_end = self._walked.end.offset, 0
        if end > self._walked.start or found.stop.abort_found:
            fields.confirm_phy_offset = max(end, 0)
        if found.stop.record is not None:
            known_end = found.stop.record.end_phy_offset
        if found.stop.confirmed is not None:
            known_end = max(known_end, found.stop.confirmed.durable_offset)
        newest, offset = last_dispatched(opened.queues, opened.batch_queues, opened.log)
        if end >= known_end:
            newest = max(newest, result.recorded_timestamp)
        result.store_timestamp = max(newest, self._redispatch.newest_timestamp)
        result.dispatched_phy_offset = offset
        believable(fields, result.store_timestamp, end)
        wanted = logics_physical_offset(offset, end) if found.config.tag_entries else 0
        if fields.logics_physical_offset != wanted:
            fields.logics_physical_offset = wanted
            os_files.write_atomically(found.paths.checkpoint, fields.encode())

    def _recorded_timestamp(self) -> int:
        """Return the store time (ms) of the newest record that RocketFlow's last writer recorded."""
        stop = self._found.stop
        recorded = self._checkpoint.physic_msg_timestamp if stop.same_writer else 0
        latest = self._found.config.clock.now_ms() + _FAR_AHEAD_MS
        if stop.confirmed is not None and stop.confirmed.durable_timestamp <= latest:
            recorded = max(recorded, stop.confirmed.durable_timestamp)
        return recorded

    @property
    def _extent(self) -> LogExtent:
        log = self._opened.log
        return LogExtent(log.min_phy_offset, self._walked.end.offset, log.file_size)

    def _report_missing(self) -> None:
        """List the bytes that existed at the last orderly stop and are missing."""
        record, paths = self._found.stop.record, self._found.paths
        if record is None:
            return
        begin, end = self._opened.log.min_phy_offset, self._walked.end.offset
        missing = [(end, record.end_phy_offset, "the end of the log is missing")]
        if self._walk.known.clean and self._found.stop.same_writer:
            missing.append((record.min_phy_offset, begin, "the begin of the log is missing, not by retention"))
        for start, stop, why in missing:
            if start < stop:
                path = paths.commit_log / file_name(start)
                Quarantine(paths).note(LOST, path, start, stop - start, why)
                self._walk.damage.lose_bytes(path, start, stop, why)


def last_dispatched(queues: FileQueueTable, batch_queues: BatchQueueTable, log: CommitLogView) -> tuple[int, int]:
    """Return the store time (ms) and the physical offset of the newest message of any queue; zeros without any."""
    newest = newest_offset = 0
    for units in (queues.last_units(), batch_queues.last_units()):
        times = log.store_timestamps(units)  # -1: no such record
        newest = max(newest, int(times.max(initial=0)))
        newest_offset = max(newest_offset, int(units["phy_offset"][times >= 0].max(initial=0)))
    return newest, newest_offset


STEPS: Final = {
    Step.CUT_LOG: Recovery.cut_log,
    Step.CUT_QUEUES: Recovery.cut_queues,
    Step.CUT_INDEX_AT_START: Recovery.cut_index_at_start,
    Step.CUT_BATCH_QUEUES_AT_START: Recovery.cut_batch_queues_at_start,
    Step.CUT_BATCH_QUEUES_AT_END: Recovery.cut_batch_queues_at_end,
    Step.CUT_INDEX_AT_END: Recovery.cut_index_at_end,
    Step.REPORT_LOST: Recovery.report_lost,
    Step.DISPATCH: Recovery.dispatch,
    Step.KEEP_ENDS: Recovery.keep_ends,
    Step.SYNC: Recovery.sync,
    Step.SYNC_CHANGES: Recovery.sync_changes,
    Step.NOTE_TOPICS: Recovery.note_topics,
    Step.RECORD_STOP: Recovery.record_stop,
    Step.RECORD_STOP_IF_LOST: Recovery.record_stop_if_lost,
    Step.END_REBUILD: Recovery.end_rebuild,
    Step.CLAMP_POSITIONS: Recovery.clamp_positions,
    Step.FIT_CHECKPOINT: Recovery.fit_checkpoint,
}
"""The function that runs each step after the walk."""
