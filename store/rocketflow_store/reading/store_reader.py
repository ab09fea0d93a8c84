"""A read-only view of a store directory: no lock, no repair, no byte changed, beside a live writer.

It shows the records that the ConsumeQueues name and the log confirms, without a record that is still being written or
an incomplete sink commit.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rocketflow_store.files import os_files
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.checkpoint_layout import CheckpointFields, decode_checkpoint
from rocketflow_store.metadata.layout.file_sizes import fitted_to
from rocketflow_store.metadata.layout.store_paths import StorePaths, store_holder
from rocketflow_store.model.errors import StoreError, StoreReplacedError
from rocketflow_store.model.results import StoreSnapshot
from rocketflow_store.reading.followed_store import FollowedStore
from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.reading.store_reads import StoreReads
from rocketflow_store.reading.tag_query import tag_coverage
from rocketflow_store.views.index.derived_profile import profile_of
from rocketflow_store.views.index.index_coverage import IndexCoverage, index_coverage
from rocketflow_store.views.index.tag_stretches import TagJudge, TagStretches

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.range_read import Wanted
    from rocketflow_store.reading.read_sources import ReadSources
    from rocketflow_store.settings.store_config import StoreConfig


class StoreReader(StoreReads):
    """A read-only view of the store at `path` that follows its writer.

    An existing empty directory is a store without topics. File sizes come from the store's files; pass `config` only
    if they cannot be derived (an index with unusual proportions).
    """

    _log_files_type: ClassVar[type[MappedFileQueue]] = MappedFileQueue
    _believes_promises: ClassVar[bool] = True
    """True if the records of the store's writers about queues count, False if only their units do."""

    def __init__(self, path: str | os.PathLike[str], config: StoreConfig | None = None) -> None:
        self.path = Path(path).absolute()
        self._take(self._open(config))

    def _open(self, config: StoreConfig | None) -> FollowedStore:
        return FollowedStore.open(self.path, config, self._log_files_type, believes_promises=self._believes_promises)

    def _take(self, opened: FollowedStore) -> None:
        self._opened, self._reads = opened, opened.reads

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._opened.close()

    # -- following the writer

    def refresh(self) -> None:
        """Look for new and deleted files, topics and queues of another process."""
        self._fit()
        self._opened.queues.refresh()

    def _fit(self) -> None:
        """Open the store again if its files have other sizes or paths than before."""
        opened, mark = self._opened, self.paths.meta_mark()
        if len(opened.reads.files) > 0 and mark == opened.meta_mark:
            return
        config, paths = fitted_to(self.config, self.paths), StorePaths.of(self.path, self.config)
        if config != self.config or paths != self.paths:
            self._take(self._open(config))
            opened.close()
        else:
            self._take(replace(opened, meta_mark=mark))

    def check_open(self) -> None:
        """Do nothing: a closed reader has no files, and finds nothing."""

    def _reads_of(self, topic: str, queue_id: int) -> ReadSources:
        """Return the sources of a queue. An unknown queue may belong to a writer with other sizes or paths."""
        if not self._opened.queues.knows(topic, queue_id):
            self._fit()
        return self._reads

    def _batches(
        self, topic: str, queue_id: int, offsets: tuple[int, int], wanted: Wanted, faults: ReadFaults
    ) -> Iterator[pa.RecordBatch]:
        """Read like `StoreReads._batches`; raise StoreReplacedError if files are replaced before the last batch."""
        self._reads_of(topic, queue_id)
        opened = self._opened.log
        opened.look()
        replacements = opened.replacements

        def is_replaced() -> bool:
            return self._opened.log is not opened or opened.replacements != replacements

        try:
            for batch in super()._batches(topic, queue_id, offsets, wanted, faults):
                if is_replaced():
                    raise StoreReplacedError(self.path)
                yield batch
            opened.look()
        except StoreError as error:
            opened.look()
            if is_replaced():
                raise StoreReplacedError(self.path) from error
            raise
        if is_replaced():
            raise StoreReplacedError(self.path)

    @property
    def state(self) -> str:
        """State by the writer's lock and its `abort` file: "running", "clean" or "unclean"."""
        if self.lock_holder is not None:
            return "running"
        return "unclean" if self.paths.abort.exists() else "clean"

    @property
    def lock_holder(self) -> str | None:
        """Name of the process that writes to the store now."""
        return store_holder(self.paths)

    @property
    def min_phy_offset(self) -> int:
        """First byte of the log that still exists now: another process removes files."""
        return self._opened.log.begin()

    @property
    def max_phy_offset(self) -> int:
        """Physical offset after the last record that the writer confirmed, or that can be found in the log."""
        return self._opened.log.end()

    def snapshot(self) -> StoreSnapshot:
        """Return the bounds of every queue at one instant, with all rows of a sink commit or none."""
        confirm_offset = self._opened.log.confirm_offset()
        self.refresh()
        queues = self._opened.queues.all_bounds(confirm_offset)
        if confirm_offset is None and self._opened.log.confirm_offset() is not None:
            return self.snapshot()
        return StoreSnapshot(queues, self.max_phy_offset)

    # -- contents of files

    @property
    def checkpoint(self) -> CheckpointFields:
        """The checkpoint's fields, zero without the file."""
        try:
            return decode_checkpoint(os_files.read_file(self.paths.checkpoint))
        except OSError:
            return CheckpointFields()

    @property
    def profile(self) -> str:
        """The RocketMQ version whose derived files the store has, "5.3" or "5.5", as recorded or found in its files."""
        return profile_of(self.paths, self.config)

    def identity(self) -> tuple[object, ...]:
        """Return a value that changes when another directory takes the store's place, or another writer starts."""
        return self.paths.identity()

    def batch_names(self) -> list[tuple[str, int]]:
        """Return (topic, queue id) of the queues of BatchCQ topics."""
        return self._opened.queues.batch_names()

    # -- records

    def record_size_at(self, phy_offset: int) -> int | None:
        """Return the size of the record that begins at `phy_offset`, None if there is none."""
        return self.log.record_size_at(phy_offset)

    def record_checksum(self, phy_offset: int, size: int) -> int | None:
        """Return the CRC-32 of the complete record of `size` bytes at `phy_offset`, None if there is no such record."""
        self._opened.log.look()
        if self.log.record_size_at(phy_offset) != size:
            return None
        mapped = self.log.file_at(phy_offset)
        assert mapped is not None
        start = phy_offset - mapped.file_from_offset
        return zlib.crc32(mapped.bytes_of(start, start + size))

    def units_match(
        self, topic: str, queue_id: int, first_queue_offset: int, units: npt.NDArray[np.void]
    ) -> npt.NDArray[np.bool_]:
        """Return the mask of consecutive units that point at a readable record which claims to be that message."""
        identity = queue_identity(self.config, topic, queue_id)
        return self.log.matches(units, first_queue_offset, identity, unreadable=True)

    # -- coverage of the index

    def index_coverage(self) -> IndexCoverage:
        """Return the part of the log in which the index names every key; none of it after an unclean stop."""
        floor, end = self.min_phy_offset, self.max_phy_offset
        if floor < end and self.state == "unclean":  # the system may have kept any of the index's pages
            return IndexCoverage(floor, floor, complete=False)
        self.index.refresh()
        return index_coverage(self.index.files, self.log, end)

    @property
    def index_complete(self) -> bool:
        """Return True if the index names every key of every record in the log."""
        return self.index_coverage().complete

    def tag_coverage(self) -> IndexCoverage:
        """Return the newest part of the log in which the index names every message's TAGS."""
        end = self.max_phy_offset
        if self.state == "unclean":
            return IndexCoverage(end, end, complete=self.min_phy_offset >= end)
        return tag_coverage(self.paths, self.index, self.log, end)

    def tag_stretches(self) -> TagStretches:
        """Return the ranges of the log in which messages with TAGS have an index entry, and in which they have none."""
        floor, end = self.min_phy_offset, self.max_phy_offset
        self.index.refresh()
        for one in self.index.files:
            one.reload()
        return TagJudge(self.index.files, self.log).stretches(floor, end)
