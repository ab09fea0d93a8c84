"""The comparison of queues and index files with their recorded state, before they are opened for writing.

The work is bounded, not proportional to the log: names and lengths of all files, the content of the newest ones
(`stop_record`). Without a credible record, the first records of every log file must have their units, and queues in
which consumers have positions must exist.

Wrong files are moved to `quarantine/`; recovery then rebuilds them from the log.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.files.directory_entries import DirectoryEntry, directory_entries, is_file_name
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import INDEX_NAME_DIGITS
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.scan_file import scan_file
from rocketflow_store.metadata.config_files import ConfigFiles, is_system_topic
from rocketflow_store.metadata.config_files.listed_topics import batch_topics
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.metadata.native.healing import Unfinished, begin_healing
from rocketflow_store.metadata.native.stop_record import NO_CRC, StopRecord, read_piece
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import is_directory_name
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE, UNIT_DTYPE
from rocketflow_store.records.decoding.decode import QueueIdentity, RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records
from rocketflow_store.records.decoding.record_crc import content_faults
from rocketflow_store.recovery.quarantine import HEALED, SET_ASIDE, Quarantine
from rocketflow_store.recovery.take_stop_record import index_crcs
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable, written_batches
from rocketflow_store.views.queues.consume_queue import lost as lost_units
from rocketflow_store.views.queues.consume_queue import pre_blank, written
from rocketflow_store.views.queues.queue_gaps import drop_deleted, drop_strays
from rocketflow_store.views.queues.queue_table import LMQ_PREFIX, FileQueueTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from rocketflow_store.format.checkpoint_layout import CheckpointFields
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.metadata.native.stop_record import IndexState, QueueState
    from rocketflow_store.settings.store_config import StoreConfig

Queue = tuple[str, int]

_NAME_DIGITS: Final = 20
_SAMPLED_RECORDS: Final = 4096
_SAMPLED_FILES: Final = 64
_SAMPLED_UNITS: Final = 16
_LAST_OFFSET: Final = 1 << 56
_MISSING: Final = "its directory is missing, and the log has messages of it"
_FILES_MISSING: Final = "files are missing of which the log has messages"
_UNITS_MISSING: Final = "units are missing of messages that the log has"


@dataclass(slots=True)
class LostState:
    """The queues and the index that must be rebuilt, with the reasons, and the record of the last orderly stop."""

    queues: dict[Queue, str] = field(default_factory=dict)
    batch_queues: dict[Queue, str] = field(default_factory=dict)
    index: str = ""
    record: StopRecord | None = None
    ends: dict[Queue, int] = field(default_factory=dict)
    """Synced ends of queues before an unclean stop, as far as the writer recorded them."""
    unfinished: Unfinished | None = None
    """The rebuild during which an earlier open was stopped; None if there was none."""
    deleted_topics: frozenset[str] = frozenset()
    """Topics that were listed at the last orderly stop and are not now: their messages are not restored."""

    def __bool__(self) -> bool:
        return bool(self.queues or self.batch_queues or self.index) or self.unfinished is not None

    @property
    def all_queues(self) -> frozenset[Queue]:
        """The ConsumeQueues that are rebuilt, including those of an earlier open."""
        unfinished = self.unfinished.queues if self.unfinished is not None else frozenset()
        return frozenset(self.queues) | unfinished

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what is rebuilt, for people."""
        queues = [f"{topic}/{queue_id}" for topic, queue_id in sorted({**self.queues, **self.batch_queues})]
        return (*queues, *(["index"] if self.index else []))

    @property
    def lmqs(self) -> list[Queue]:
        """The LMQs among the rebuilt queues: their units need the caller's knowledge of them."""
        return sorted(key for key in self.all_queues if key[0].startswith(LMQ_PREFIX))

    @property
    def all_batch_queues(self) -> list[Queue]:
        """Batch queues that are rebuilt."""
        unfinished = self.unfinished.batch_queues if self.unfinished is not None else frozenset()
        return sorted({*self.batch_queues, *unfinished})

    def quarantine(self, paths: StorePaths) -> None:
        """Move the files that are to be rebuilt to `quarantine/`; a second call changes nothing."""
        if self:
            begin_healing(paths, self.queues, self.batch_queues)
        quarantine = Quarantine(paths)
        parents = ((paths.consume_queue, self.queues), (paths.batch_consume_queue, self.batch_queues))
        for one, why in misplaced(paths, self):
            quarantine.note(SET_ASIDE, one, 0, 0, why, quarantine.move(one))
        for parent, queues in parents:
            for (topic, queue_id), why in sorted(queues.items()):
                directory = parent / topic / str(queue_id)
                kept = quarantine.move(directory) if _exists(directory) else None
                quarantine.note(HEALED, directory, 0, 0, f"{why}; rebuilt from the log", kept)
        if self.index:
            kept = quarantine.move(paths.index) if _exists(paths.index) else None
            quarantine.note(HEALED, paths.index, 0, 0, f"{self.index}; rebuilt from the log", kept)


def misplaced(paths: StorePaths, lost: LostState) -> Iterator[tuple[Path, str]]:
    """Yield files in the place of a directory and directories in the place of a file, and why each is wrong."""
    parents = ((paths.consume_queue, lost.queues), (paths.batch_consume_queue, lost.batch_queues))
    for directory in [one for parent, queues in parents for one in (parent, *(parent / topic for topic, _ in queues))]:
        if directory.is_file():
            yield directory, "is not a directory"
    for file in (paths.checkpoint, paths.confirm, paths.stop_record, paths.durable_ends):
        if file.is_dir():
            yield file, "is a directory"


@dataclass(frozen=True, slots=True)
class StopMarks:
    """State that the last writer left in small files: read once, before anything is changed."""

    abort_found: bool
    record: StopRecord | None = None
    same_writer: bool = False
    """True if no writer has stopped in order since the record was written."""
    confirmed: Confirmed | None = None
    """Contents of the confirm file, if the last writer was RocketFlow and stopped uncleanly."""
    ends: DurableEnds | None = None
    deleted: DeletedTopics = field(default_factory=DeletedTopics)
    has_index: bool = False
    """True if the checkpoint shows that there was an index."""


def look_at_derived(
    paths: StorePaths, config: StoreConfig, stop: StopMarks, files: ConfigFiles, topics: frozenset[str] | None
) -> LostState:
    """Return what is wrong with the queues and the index of a store without a writer. Changes nothing.

    `topics` are those that the store lists, None if they cannot be read.
    """
    return _Look(paths, config, stop, files, topics).lost()


class _Look:
    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        stop: StopMarks,
        files: ConfigFiles,
        topics: frozenset[str] | None,
    ) -> None:
        self._paths, self._config, self._stop, self._files = paths, config, stop, files
        self._record, self._ends, self._deleted = stop.record, stop.ends, stop.deleted
        self._topics = topics
        self._batch_topics = batch_topics(paths, files)
        self._multi_dispatch = config.enable_multi_dispatch
        logs = [one for directory in paths.commit_logs for one in directory_entries(directory)]
        bases = [int(one.name) for one in logs if is_file_name(one, _NAME_DIGITS) and one.size]
        self._min_phy_offset = min(bases, default=-1)
        self._lost = LostState(record=self._record)

    def lost(self) -> LostState:
        """Compare everything."""
        lost = self._lost
        if self._min_phy_offset < 0:
            return lost  # there is no log to rebuild from
        if self._record is not None and self._topics is not None:
            known = {**self._record.queues, **self._record.batch_queues}
            listed = {key[0] for key, state in known.items() if state.listed}
            lost.deleted_topics = frozenset(listed - self._topics)
        paths, config, record = self._paths, self._config, self._record
        there, batches = _queues(paths.consume_queue), _queues(paths.batch_consume_queue)
        self._multi_dispatch |= any(topic.startswith(LMQ_PREFIX) for topic, _ in there)
        batch_size = config.mapper_file_size_batch_consume_queue
        for parent, unit_size, size, queues, states, found in (
            (
                *(paths.consume_queue, UNIT_SIZE, config.mapped_file_size_consume_queue),
                *(there, record.queues if record is not None else {}, lost.queues),
            ),
            (
                *(paths.batch_consume_queue, BATCH_UNIT_SIZE, batch_size),
                *(batches, record.batch_queues if record is not None else {}, lost.batch_queues),
            ),
        ):
            for key, entries in queues.items():
                why = self._misfit(entries, size)
                if why and key[0] not in self._deleted.unfinished:
                    found[key] = why
            for key, state in states.items():
                if key not in found:
                    why = self._changed(parent, key, queues.get(key), state, unit_size)
                    if why:
                        found[key] = why
        if self._ends is not None:
            log = MappedFileQueue(paths.log_directories(), config.mapped_file_size_commit_log, write=False)
            try:
                self._ask_ends(self._ends, there, batches, CommitLogView(log))
            finally:
                log.close()
        if record is None or not (self._stop.same_writer or self._stop.abort_found):
            self._ask_positions({*there, *batches})
            self._ask_log()
        if self._config.message_index_enable:
            lost.index = self._index()
        return lost

    # -- queues

    def _misfit(self, entries: list[DirectoryEntry], size: int) -> str:
        """Return why the files of a queue, of `size` bytes each, do not fit together; empty if they do."""
        named = sorted((one for one in entries if is_file_name(one, _NAME_DIGITS)), key=lambda one: int(one.name))
        for one in named:
            last = one is named[-1] and self._stop.abort_found
            if not one.is_file:
                return f"{one.name} is not a file"
            if int(one.name) % size:
                return f"{one.name} is not a multiple of the file size, {size}"
            if one.size != size and not last:
                return f"{one.name} has {one.size} bytes, not {size}"
        for one, following in pairwise(named):
            if int(following.name) - int(one.name) != size:
                return f"files between {one.name} and {following.name} are missing"
        return ""

    def _changed(
        self, parent: Path, key: Queue, entries: list[DirectoryEntry] | None, state: QueueState, unit_size: int
    ) -> str:
        """Return how a queue differs from the last orderly stop; empty if it does not, or was deleted since."""
        if key[0] in self._lost.deleted_topics or key[0] in self._deleted.unfinished:
            return ""
        if entries is None:
            return "its directory is missing" if state.end else ""
        names = {int(one.name): one for one in entries if is_file_name(one, _NAME_DIGITS)}
        directory = parent / key[0] / str(key[1])
        for file in state.files:
            entry = names.get(file.base)
            if entry is None:
                if file.last_phy_offset >= self._min_phy_offset or not names:
                    return f"the file that begins at {file.base} is missing"
                continue
            path = directory / entry.name
            if file.crc != NO_CRC:
                same = zlib.crc32(read_piece(path, 0, file.length)) == file.crc
            else:
                ends = read_piece(path, 0, unit_size) + read_piece(path, file.length - unit_size, unit_size)
                same = zlib.crc32(ends) == file.ends
            if not same:
                return f"{entry.name} has changed"
        return ""

    # -- after an unclean stop

    def _ask_ends(
        self,
        ends: DurableEnds,
        there: dict[Queue, list[DirectoryEntry]],
        batches: dict[Queue, list[DirectoryEntry]],
        log: CommitLogView,
    ) -> None:
        """Find queues that lack the newest unit of the durable frontier."""
        lost = self._lost
        for key, end in ends.queues.items():
            if end == 0 or not self._may_be_lost(key[0]):
                continue
            lost.ends[key] = end
            if key[0] in self._batch_topics:
                if key not in batches:
                    lost.batch_queues.setdefault(key, _MISSING)
                elif not any(one.size for one in batches[key]):
                    lost.batch_queues.setdefault(key, _FILES_MISSING)
                elif key not in lost.batch_queues and not self._has_batches(key, batches[key], end):
                    lost.batch_queues[key] = _UNITS_MISSING
            elif key not in there:
                lost.queues.setdefault(key, _MISSING)
            elif key not in lost.queues and not self._has_units(key, there[key], end, log):
                lost.queues[key] = _UNITS_MISSING

    def _has_units(self, key: Queue, entries: list[DirectoryEntry], end: int, log: CommitLogView) -> bool:
        """Return True if the last files of a queue have every unit up to `end`: it would end at a missing one."""
        stop = end * UNIT_SIZE
        files = self._last_files([one for one in entries if is_file_name(one, _NAME_DIGITS) and int(one.name) < stop])
        directory = self._paths.consume_queue / key[0] / str(key[1])
        parts = []
        for one in files:
            base = int(one.name)
            length = min(self._config.mapped_file_size_consume_queue, stop - base)
            found = read_piece(directory / one.name, 0, length)  # a truncated file may end within a unit
            parts.append(np.frombuffer(found, UNIT_DTYPE, len(found) // UNIT_SIZE))
            if len(parts[-1]) < length // UNIT_SIZE or not written(parts[-1]).all():
                return False
        if not files or int(files[-1].name) + self._config.mapped_file_size_consume_queue < stop:
            return False
        return _are_of(log, key, np.concatenate(parts)[-_SAMPLED_UNITS:], end)

    def _has_batches(self, key: Queue, entries: list[DirectoryEntry], end: int) -> bool:
        """Check a queue of a BatchCQ topic like `_has_units`; a unit's place does not show its queue offset there."""
        directory = self._paths.batch_consume_queue / key[0] / str(key[1])
        parts = []
        for one in self._last_files(entries):
            raw = read_piece(directory / one.name, 0, one.size)
            parts.append(np.frombuffer(raw, BATCH_UNIT_DTYPE, len(raw) // BATCH_UNIT_SIZE))
        units = np.concatenate(parts) if parts else np.zeros(0, BATCH_UNIT_DTYPE)
        there = written_batches(units)
        ends = units["msg_base_offset"].astype(np.int64) + units["batch_size"]
        reached = np.flatnonzero(there & (ends >= end))
        return len(reached) > 0 and bool(there[: reached[0]].all())

    @staticmethod
    def _last_files(entries: list[DirectoryEntry]) -> list[DirectoryEntry]:
        """Return the files in which the end of a queue is looked for."""
        return sorted((one for one in entries if is_file_name(one, _NAME_DIGITS)), key=lambda one: int(one.name))[-3:]

    # -- without a record

    def _ask_positions(self, there: set[Queue]) -> None:
        """Find queues that do not exist though a consumer has a position in them."""
        table: dict[tuple[str, str], dict[int, int]] = {}
        for file in self._files.positions:
            with suppress(StoreError):
                table |= file.table()
        for (topic, group), offsets in table.items():
            for queue_id, offset in offsets.items():
                if offset > 0 and self._may_be_lost(topic) and (topic, queue_id) not in there:
                    lost = self._lost.batch_queues if topic in self._batch_topics else self._lost.queues
                    lost[topic, queue_id] = f"its directory is missing, and {group} read it up to {offset}"

    def _ask_log(self) -> None:
        """Find queues that lack the units of records at the begin of log files."""
        config = self._config
        files = MappedFileQueue(self._paths.log_directories(), config.mapped_file_size_commit_log, write=False)
        log = CommitLogView(files)
        paths = self._paths
        queues = FileQueueTable(paths.consume_queue, config.mapped_file_size_consume_queue, log, write=False)
        batch_queues = BatchQueueTable(
            paths.batch_consume_queue, config.mapper_file_size_batch_consume_queue, write=False
        )
        try:
            queues.refresh()
            batch_queues.refresh()
            dispatched = max(queues.max_unit_end(), batch_queues.max_unit_end())
            for mapped in files.files[-_SAMPLED_FILES:]:
                scan = scan_file(mapped, 0, mapped.file_size, _SAMPLED_RECORDS)
                records = RecordColumns(mapped.buffer, scan.positions, scan.sizes)
                records.check_own_offset(mapped.file_from_offset)
                records.faults.update(content_faults(records.before_faults()))
                records = records.before_faults()
                if records.count == 0:
                    continue
                rows = rows_of_records(records, mapped.file_from_offset, config.delay_levels_ms)
                drop_deleted(rows, self._deleted.floors)
                drop_strays(rows)
                for code, key in enumerate(rows.queues):
                    mine = (rows.queue_of == code) & (rows.phy_offsets < dispatched)
                    if key[0] in self._batch_topics:
                        self._ask_batch_units(key, rows.phy_offsets[mine], batch_queues)
                    else:
                        self._ask_units(key, rows.queue_offsets[mine], queues)
                lmq_offsets: dict[str, list[int]] = {}
                for row, name, offset in rows.lmq:
                    if int(rows.phy_offsets[row]) >= dispatched:
                        continue
                    if is_directory_name(name) or queues.find(name, LMQ_QUEUE_ID) is not None:
                        lmq_offsets.setdefault(name, []).append(offset)
                for name, offsets in lmq_offsets.items():
                    self._ask_units((name, LMQ_QUEUE_ID), np.array(offsets, np.int64), queues)
        finally:
            queues.close()
            batch_queues.close()
            files.close()

    def _ask_units(self, key: Queue, offsets: npt.NDArray[np.int64], queues: FileQueueTable) -> None:
        if len(offsets) == 0 or key in self._lost.queues or not self._may_be_lost(key[0]):
            return
        queue = queues.find(*key)
        first = int(offsets.min())
        units = None if queue is None else queue.units(max(first, queue.first_unit), int(offsets.max()) + 1)
        if queue is None or units is None:
            self._lost.queues[key] = _MISSING
        elif first < queue.first_unit or len(units) <= int(offsets.max()) - first:
            self._lost.queues[key] = _FILES_MISSING
        elif (~written(units) | pre_blank(units))[offsets - first].any():
            self._lost.queues[key] = _UNITS_MISSING

    def _ask_batch_units(self, key: Queue, phy_offsets: npt.NDArray[np.int64], queues: BatchQueueTable) -> None:
        if len(phy_offsets) == 0 or key in self._lost.batch_queues or not self._may_be_lost(key[0]):
            return
        queue = queues.find(*key)
        if queue is None:
            self._lost.batch_queues[key] = _MISSING
        elif len(queue.units_from(int(phy_offsets[0]), 1)) == 0:
            self._lost.batch_queues[key] = _FILES_MISSING
        elif not np.isin(phy_offsets, queue.units_from(int(phy_offsets[0]), len(phy_offsets))["phy_offset"]).all():
            self._lost.batch_queues[key] = _UNITS_MISSING

    def _may_be_lost(self, topic: str) -> bool:
        """Return True if a topic may have queues to rebuild: it was not deleted."""
        if topic in self._deleted.unfinished:
            return False
        if topic.startswith(LMQ_PREFIX):
            return self._multi_dispatch
        return self._topics is None or topic in self._topics or is_system_topic(topic)

    # -- index

    def _index(self) -> str:
        """Return why the index must be rebuilt; empty if it need not."""
        size, record = self._config.index_file_size, self._record
        entries = {
            one.name: one for one in directory_entries(self._paths.index) if is_file_name(one, INDEX_NAME_DIGITS)
        }
        if self._paths.meta.exists() or len({one.size for one in entries.values()}) > 1:
            for one in entries.values():
                if not one.is_file or (one.size != size and not (self._stop.abort_found and one.size == 0)):
                    return f"{one.name} has {one.size} bytes, not {size}"
        if self._ends is not None:
            for name, end_phy_offset in self._ends.index.items():
                others = not entries or not self._ends.index.keys().isdisjoint(entries)  # else all were rebuilt
                if name not in entries and end_phy_offset >= self._min_phy_offset and others:
                    return f"{name} is missing"
        if record is None and not entries and self._stop.has_index:
            return "no index file exists, but the checkpoint names an index"
        if record is None or record.index is None:
            return ""
        for name, state in record.index.items():
            if name not in entries:
                if state.end_phy_offset >= self._min_phy_offset or not entries:
                    return f"{name} is missing"
            elif self._stop.same_writer and not self._stop.abort_found and not self._index_is_same(name, state):
                return f"{name} has changed"
        return ""

    def _index_is_same(self, name: str, state: IndexState) -> bool:
        _, header, crc = index_crcs(self._paths.index / name, state.content_end)
        return header == state.header and (state.crc == NO_CRC or crc == state.crc)


def _are_of(log: CommitLogView, key: Queue, units: npt.NDArray[np.void], end: int) -> bool:
    """Return True if one of the units before `end` points at its record, or if none points at an existing place."""
    topic, queue_id = key
    there = ~(pre_blank(units) | lost_units(units)) & (units["phy_offset"] >= log.min_phy_offset)
    identity = QueueIdentity(topic, queue_id, "", exact=not topic.startswith(LMQ_PREFIX))
    matching = log.matches(units, end - len(units), identity, unreadable=True)
    return not there.any() or bool((there & matching).any())


def believable(fields: CheckpointFields, newest_ms: int, log_end: int) -> None:
    """Correct impossible values of a checkpoint: times after the newest record's, an offset after the log's end."""
    fields.physic_msg_timestamp = min(max(fields.physic_msg_timestamp, 0), newest_ms)
    fields.logics_msg_timestamp = min(max(fields.logics_msg_timestamp, 0), newest_ms)
    fields.index_msg_timestamp = min(max(fields.index_msg_timestamp, 0), newest_ms)
    fields.confirm_phy_offset = min(max(fields.confirm_phy_offset, 0), log_end)
    fields.logics_physical_offset = min(max(fields.logics_physical_offset, 0), log_end)
    if not -1 <= fields.master_flushed_offset <= _LAST_OFFSET:
        fields.master_flushed_offset = 0


def _queues(parent: Path) -> dict[Queue, list[DirectoryEntry]]:
    found = {}
    for topic in directory_entries(parent):
        if not topic.is_file:
            for queue in directory_entries(parent / topic.name):
                if queue.name.isdigit():
                    found[topic.name, int(queue.name)] = directory_entries(parent / topic.name / queue.name)
    return found


def _exists(path: Path) -> bool:
    return os.path.lexists(path)
