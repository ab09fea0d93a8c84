"""The ends that a reader can expect of a store's queues, independent of their units.

Units and files of a queue can be lost without a trace in those that remain. The state of a queue is recorded elsewhere:

* `rocketflow/stop`, by the last orderly stop: the end of every queue, and its files. Queues only grow, so that it
  is valid after a crash and beside a writer too, unless the topic was deleted since.
* `rocketflow/ends`, by the writer that left the present `abort`: the ends at its last flush.
* Records of the log that are newer, or of another writer (`log_promises`).

If the units do not reach a promised end, the promise is checked again (`PromisedQueues.holds`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.metadata.config_files import ConfigFiles, is_system_topic
from rocketflow_store.metadata.config_files.listed_topics import batch_topics, listed_topics
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics, deleted_topics_path
from rocketflow_store.metadata.native.durable_ends import DurableEnds
from rocketflow_store.metadata.native.stop_record import believed_record, checkpoint_crc
from rocketflow_store.model.topic_names import LMQ_PREFIX

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.stop_record import QueueState, StopRecord
    from rocketflow_store.views.queues.log_promises import LogPromises, LogQueues, Queue
    from rocketflow_store.views.queues.queue_table import FileQueueTable

_ABORT: Final = 2
_DELETED: Final = 4
"""Indexes into the files that are watched."""


class PromisedQueues:
    """The queues that a store should have, for a reader that follows its writer."""

    def __init__(self, paths: StorePaths, queues: FileQueueTable, log: LogPromises) -> None:
        self._paths, self._queues, self._log = paths, queues, log
        self._watched = (
            *(paths.stop_record, paths.durable_ends, paths.abort, paths.checkpoint),
            *(deleted_topics_path(paths), ConfigFiles(paths.config).topics.path),
        )
        self._marks: tuple[tuple[int, int], ...] = ()
        self._record: StopRecord | None = None
        self._record_mark = (-1, -1)
        self._same_writer = False
        self._listed: frozenset[str] | None = None
        self._deleted = DeletedTopics()
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
        of_log = self._log.look(confirmed, marks[_ABORT][0], marks[_DELETED], same_writer=self._same_writer)
        for known, found in ((plain, of_log.plain), (batch, of_log.batch)):
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

    def head(self, min_phy_offset: int) -> LogQueues:
        """Return the queue offsets of the records in the first 16 MiB of the log."""
        return self._log.head(min_phy_offset)

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
