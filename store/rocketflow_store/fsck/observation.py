"""Observation of a store that `verify` opened: the state that was read before the checks and that all of them use."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.log.record_crc_range import record_crc_range
from rocketflow_store.log.written_end import written_end
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.native.confirm import read_confirm
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.known_tag_entries import known_tag_entries
from rocketflow_store.metadata.native.stop_record import believed_record
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.reading.store_reader import StoreReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.files.mapped.mapped_file import MappedFile
    from rocketflow_store.metadata.native.stop_record import StopRecord
    from rocketflow_store.metadata.native.tag_entries import TagEntries

    Queue = tuple[str, int]


class _AnyLength(MappedFileQueue):
    """Accepts files of another length too, as far as they go."""

    def _usable(self, path: str) -> bool:
        try:
            fits = int(os.path.basename(path)) % self.file_size == 0
            return fits and os.path.isfile(path) and os.stat(path).st_size > 0
        except FileNotFoundError:
            return False

    def _take(self, offset: int, entry: os.DirEntry[str]) -> None:
        super()._take(offset, entry)
        taken = self._files.get(offset)
        if taken is not None:
            taken.file_size = min(taken.file_size, self.file_size)


class LenientReader(StoreReader):
    """A reader that also opens damaged stores."""

    _log_files_type = _AnyLength
    _believes_promises = False


@dataclass(frozen=True, slots=True)
class Observation:
    """State of the store when it was opened. Offsets are physical, ranges exclude their end."""

    reader: LenientReader
    state: str
    """See `StoreReader.state`: "running", "clean" or "unclean"."""
    end: int
    """The end of the range that readers may read."""
    limit: int
    """The end of the range in which the log is checked."""
    settled: int
    """Units and entries of records before this must exist."""
    log_settled: int | None
    """Bad bytes of the log before this are damage; after it an open cuts the log at the first of them. None: unknown"""
    bounds: Mapping[Queue, tuple[int, int]]
    """Queue offsets that readers may read."""
    record: StopRecord | None
    """The record of the last orderly stop."""
    deleted: DeletedTopics
    batch_topics: frozenset[str]
    """Topics that are, or were, BatchCQ ones."""
    record_crc: tuple[int, int]
    """The range in which every record ends with a record CRC."""
    tag_entries: TagEntries
    """The range in which every record's TAGS must have an index entry; elsewhere they may."""

    @property
    def is_quiet(self) -> bool:
        """True if no writer runs."""
        return self.state != "running"

    @property
    def is_clean(self) -> bool:
        """True if the last stop was orderly."""
        return self.state == "clean"

    @property
    def settled_units(self) -> int:
        """Units of records at or after this offset may come from an unclean stop."""
        return 1 << 62 if self.is_clean else self.settled

    @property
    def log_file_size(self) -> int:
        """The size of a CommitLog file in bytes."""
        return self.reader.config.mapped_file_size_commit_log

    @property
    def lmqs(self) -> frozenset[str] | None:
        """LMQs that exist or existed; None: all that records name."""
        names = {topic for topic, _ in self.bounds if topic.startswith(LMQ_PREFIX)}
        if self.record is None:
            return None if names else frozenset()
        return frozenset(names | {topic for topic, _ in self.record.queues if topic.startswith(LMQ_PREFIX)})

    @property
    def unlisted_topics(self) -> frozenset[str]:
        """Topics that had queues at the last orderly stop without being listed in `config/topics.json`."""
        if self.record is None:
            return frozenset()
        return frozenset(topic for (topic, _), state in self.record.queues.items() if not state.listed)

    def log_file(self, phy_offset: int) -> MappedFile:
        """Return the CommitLog file that holds `phy_offset`."""
        return next(one for one in self.reader.log_files if one.file_from_offset <= phy_offset < one.end_offset)


def observe(reader: LenientReader, *, locked: bool) -> Observation:
    """Read the state that all checks need; with `locked` the caller holds the store's lock, and no writer runs."""
    paths, state = reader.paths, reader.state
    if locked:
        state = "unclean" if paths.abort.exists() else "clean"
    confirmed = read_confirm(paths)
    end, bounds = reader.max_phy_offset, reader.snapshot().queues
    limit = end if state == "running" else max(end, written_end(reader.log_files, keep_cached=True))
    settled = 0
    log_settled: int | None = None
    if state == "clean":
        settled = log_settled = limit
    elif confirmed is not None:
        settled = end if state == "running" else min(confirmed.durable_offset, end)
        log_settled = end if state == "running" else min(confirmed.synced_offset, end)
    record = believed_record(paths)
    return Observation(
        reader,
        state,
        end,
        limit,
        settled,
        log_settled,
        bounds,
        record,
        DeletedTopics.load(paths),
        _batch_topics(reader, record),
        record_crc_range(paths),
        known_tag_entries(paths, paths.index),
    )


def _batch_topics(reader: StoreReader, record: StopRecord | None) -> frozenset[str]:
    names = {topic for topic, _ in reader.batch_names()}
    names |= {topic for topic, _ in record.batch_queues} if record is not None else set()
    with suppress(StoreError):
        topics = ConfigFiles(reader.paths.config).topics.topics()
        names |= {name for name, one in topics.items() if one.is_batch_cq}
    return frozenset(names)
