"""The ends that a reader can expect of a store's queues, independent of their units.

Units and files of a queue can be lost without a trace in those that remain. The state of a queue is recorded elsewhere:

* `rocketflow/stop`, by the last orderly stop: the end of every queue, and its files. Queues only grow, so that it
  is valid after a crash and beside a writer too, unless the topic was deleted since.
* `rocketflow/ends`, by the writer that left the present `abort`: the ends at its last flush.
* The log between that flush and the confirm offset: every record of it has a unit. If no writer has the store open,
  all of it is read, beside a writer the first few MiB.
* For a store of another writer, the newest records of the log, and the offsets of consumers.

If the units do not reach a promised end, the promise is checked again (`PromisedQueues.holds`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rocketflow_store.files.lock import lock_holder
from rocketflow_store.metadata.config_files import ConfigFiles, is_system_topic
from rocketflow_store.metadata.config_files.listed_topics import batch_topics, listed_topics
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics, deleted_topics_path
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.metadata.native.stop_record import believed_record, checkpoint_crc
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.views.queues.log_queues import queues_of_log

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.metadata.native.stop_record import QueueState, StopRecord
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable

Queue = tuple[str, int]

_ABORT: Final = 2
_DELETED: Final = 4
"""Indexes into the files that are watched."""
_BESIDE_A_WRITER: Final = 16 << 20
_OF_ANOTHER_WRITER: Final = 4 << 20
_HEAD: Final = 16 << 20
"""So many bytes at the begin of the log are read for queues that no record promises."""


class LogQueues(NamedTuple):
    """By queue, the first queue offset and the one after the last, in the records of a part of the log."""

    plain: dict[Queue, tuple[int, int]]
    batch: dict[Queue, tuple[int, int]]


class PromisedQueues:
    """The queues that a store should have, for a reader that follows its writer."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        files: MappedFileQueue,
        queues: FileQueueTable,
        batch_queues: BatchQueueTable,
    ) -> None:
        self._paths, self._config, self._files = paths, config, files
        self._queues, self._batch_queues = queues, batch_queues
        self._watched = (
            *(paths.stop_record, paths.durable_ends, paths.abort, paths.checkpoint),
            *(deleted_topics_path(paths), ConfigFiles(paths.config).topics.path),
        )
        self._marks: tuple[tuple[int, int], ...] = ()
        self._record: StopRecord | None = None
        self._record_mark = (-1, -1)
        self._same_writer = False
        self._scanned_for: tuple[int, tuple[int, int]] = -1, (-1, -1)
        self._listed: frozenset[str] | None = None
        self._deleted = DeletedTopics()
        self._of_log = LogQueues({}, {})
        self._head: tuple[int, LogQueues] = -1, self._of_log
        self.plain: dict[Queue, int] = {}
        """The end of each plain queue."""
        self.batch: dict[Queue, int] = {}
        """The end of each queue of a BatchCQ topic."""

    @property
    def writer(self) -> int:
        """The writer (`StorePaths.writer_mark`) that `look` last saw."""
        return self._marks[_ABORT][0] if self._marks else -1

    def look(self) -> bool:
        """Read the files of the writers; return True if any of them changed."""
        paths = self._paths
        marks = tuple(_mark(path) for path in self._watched)
        if marks == self._marks:
            return False
        if marks[0] != self._record_mark:
            self._record, self._record_mark = believed_record(paths), marks[0]
        confirmed = read_confirm(paths)
        record = self._record
        plain, batch = {}, {}
        if record is not None:
            plain = {key: state.end for key, state in record.queues.items() if state.end}
            batch = {key: state.end for key, state in record.batch_queues.items() if state.end}
        self._same_writer = confirmed is not None
        if confirmed is None and record is not None and not marks[_ABORT][0]:
            self._same_writer = record.checkpoint == checkpoint_crc(paths)
        if confirmed is not None:
            self._add_ends(plain, batch)
        self._scan_log(confirmed, marks[_ABORT][0], marks[_DELETED])
        for known, found in ((plain, self._of_log.plain), (batch, self._of_log.batch)):
            for key, (_, end) in found.items():
                known[key] = max(known.get(key, 0), end)
        self._listed, self._deleted = listed_topics(paths), DeletedTopics.load(paths)
        self._marks, self.plain, self.batch = marks, plain, batch
        return True

    def _add_ends(self, plain: dict[Queue, int], batch: dict[Queue, int]) -> None:
        """Add the ends at the last flush of the running writer, or of the one that stopped uncleanly."""

        ends = DurableEnds.load(self._paths)
        if ends is None or not ends.queues:
            return
        of_batches = batch_topics(self._paths) | {topic for topic, _ in batch}
        has_lmqs = any(topic.startswith(LMQ_PREFIX) for topic, _ in self._queues.names())
        for key, end in ends.queues.items():
            if key[0].startswith(LMQ_PREFIX) and not has_lmqs:
                continue
            known = batch if key[0] in of_batches else plain
            if end:
                known[key] = max(known.get(key, 0), end)

    # -- the log

    def _scan_log(self, confirmed: Confirmed | None, writer: int, deleted: tuple[int, int]) -> None:
        """Read the queue offsets of records that are newer than the recorded ends; once for each writer."""
        if (writer, deleted) == self._scanned_for:
            return
        self._scanned_for, self._of_log = (writer, deleted), LogQueues({}, {})
        running = writer and lock_holder(self._paths.lock) is not None
        if confirmed is not None:
            start, stop = confirmed.durable_offset, confirmed.confirm_offset
            if running:
                stop = min(stop, start + _BESIDE_A_WRITER)
            self._of_log = self._known_lmqs(self._queues_of_log(start, stop))
        elif not self._same_writer and not running and self._files.last is not None:
            self._ask_another_writer(stopped_in_order=not writer)

    def _ask_another_writer(self, *, stopped_in_order: bool) -> None:
        """Expect units of the newest records, and queues that consumers have read."""
        units = self._queues.last_units()
        of_batches = self._batch_queues.last_units()
        places = np.concatenate([one["phy_offset"].astype(np.int64) for one in (units, of_batches)])
        ends = np.concatenate([one["phy_offset"].astype(np.int64) + one["msg_size"] for one in (units, of_batches)])
        last = self._files.last
        assert last is not None
        reached = int(ends.max(initial=0))
        # Dispatch follows the log: before the newest unit every record has one; after an orderly stop all of them do.
        stop = last.end_offset if stopped_in_order else reached
        least = max(reached, last.file_from_offset) - _OF_ANOTHER_WRITER
        boundaries = [one.file_from_offset for one in self._files.files if one.file_from_offset >= least]
        start = int(places[places >= least].min(initial=min(boundaries, default=stop)))
        self._of_log = self._known_lmqs(self._queues_of_log(start, stop))
        if self._files.first_offset > 0:
            return  # RocketMQ deletes a queue when all of its messages are expired
        for key, offset in self._read_by_consumers().items():
            if self._queues.find(*key) is None and self._batch_queues.find(*key) is None:
                self._of_log.plain.setdefault(key, (0, offset))

    def _known_lmqs(self, found: LogQueues) -> LogQueues:
        """Drop LMQs that have no files: only a writer with multi dispatch writes units for them."""
        plain = {
            key: offsets
            for key, offsets in found.plain.items()
            if not key[0].startswith(LMQ_PREFIX) or self._queues.find(*key) is not None
        }
        return LogQueues(plain, found.batch)

    def _read_by_consumers(self) -> dict[Queue, int]:
        """Return the highest offset of any consumer in each queue."""
        found: dict[Queue, int] = {}
        for file in ConfigFiles(self._paths.config).positions:
            with suppress(StoreError):
                for (topic, _), offsets in file.table().items():
                    for queue_id, offset in offsets.items():
                        if offset > 0:
                            found[topic, queue_id] = max(found.get((topic, queue_id), 0), offset)
        return found

    def head(self, min_phy_offset: int) -> LogQueues:
        """Return the queue offsets of the records in the first 16 MiB of the log."""
        if self._head[0] != min_phy_offset:
            self._head = min_phy_offset, self._queues_of_log(min_phy_offset, min_phy_offset + _HEAD)
        return self._head[1]

    def _queues_of_log(self, start: int, stop: int) -> LogQueues:
        """Return the queue offsets of the sound records of `[start, stop)`; `start` is a record boundary."""
        return LogQueues(*queues_of_log(self._paths, self._config, self._files, start, stop))

    # -- promises that units do not keep

    def first_unit(self, key: Queue, min_phy_offset: int, unit_size: int, *, batch: bool = False) -> int:
        """Return the number of the first unit of the oldest file that retention must have left; -1 if unknown."""
        state = self._state(key, batch=batch)
        kept = [] if state is None else [one.base for one in state.files if one.last_phy_offset >= min_phy_offset]
        return min(kept) // unit_size if kept else -1

    def _state(self, key: Queue, *, batch: bool) -> QueueState | None:
        if self._record is None:
            return None
        return (self._record.batch_queues if batch else self._record.queues).get(key)

    def holds(self, key: Queue, min_phy_offset: int, first_phy_offset: int, *, batch: bool = False) -> bool:
        """Return True if a queue must still have its promised end: its topic was neither deleted nor recreated.

        `first_phy_offset` is the physical offset in the queue's first unit, -1 without units.
        """
        topic, record, state = key[0], self._record, self._state(key, batch=batch)
        deleted, listed = self._deleted, self._listed
        if topic in deleted.unfinished:
            return False
        if state is not None and record is not None:
            if 0 <= state.last_phy_offset < min_phy_offset:
                return False  # all of its messages are expired
            if state.listed and listed is not None and topic not in listed:
                return False
            if deleted.floors.get(topic, 0) >= record.end_phy_offset:
                return False
            is_new = first_phy_offset >= record.end_phy_offset or topic.startswith(LMQ_PREFIX)
            return self._same_writer or not is_new
        if topic.startswith(LMQ_PREFIX):
            return self._same_writer
        return listed is None or topic in listed or is_system_topic(topic)


def _mark(path: Path) -> tuple[int, int]:
    """Return numbers that change with every write of a small file; zeros if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_ino
