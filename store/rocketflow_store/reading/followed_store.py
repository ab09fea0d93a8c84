"""The parts of a store that is open for reading only: opened together, and replaced together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.log.record_crc_range import readable_range
from rocketflow_store.metadata.layout.file_sizes import fitted_to
from rocketflow_store.metadata.layout.other_engines import warn_of_rocksdb_data
from rocketflow_store.metadata.layout.store_paths import StorePaths, check_directory
from rocketflow_store.model.errors import NotAStoreError
from rocketflow_store.reading.followed_log import FollowedLog
from rocketflow_store.reading.followed_queues import FollowedQueues
from rocketflow_store.reading.read_sources import ReadSources
from rocketflow_store.settings.store_config import StoreConfig
from rocketflow_store.views.index.index_service import IndexService
from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
from rocketflow_store.views.queues.log_promises import LogPromises
from rocketflow_store.views.queues.promised_queues import PromisedQueues
from rocketflow_store.views.queues.queue_table import FileQueueTable

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue


@dataclass(frozen=True, slots=True)
class FollowedStore:
    """One open of the store at `path`, with the file sizes and paths of that time."""

    reads: ReadSources
    log: FollowedLog
    queues: FollowedQueues
    tables: tuple[FileQueueTable, BatchQueueTable]
    meta_mark: int
    """Changes once the store was created, or a writer recorded other paths."""

    @classmethod
    def open(
        cls, path: Path, config: StoreConfig | None, files_type: type[MappedFileQueue], *, believes_promises: bool
    ) -> Self:
        """Open the store; with `believes_promises`, the records of its writers about its queues count.

        Raises:
            NotAStoreError: the directory holds other files.
        """
        check_directory(path, must_exist=True)
        paths = StorePaths.of(path, config)
        warn_of_rocksdb_data(path)
        if not paths.looks_like_store() and any(path.iterdir()):
            raise NotAStoreError(path, "holds no commitlog/; give the directory that storePathRootDir names")
        meta_mark, config = paths.meta_mark(), fitted_to(config or StoreConfig(), paths)
        files = files_type(paths.log_directories(), config.mapped_file_size_commit_log, write=False)
        files.refuse_other_sizes()
        view = CommitLogView(files, readable_range(paths))
        table = FileQueueTable(
            paths.consume_queue,
            config.mapped_file_size_consume_queue,
            view,
            write=False,
            past_gaps=True,
        )
        index = IndexService(paths.index, config.max_hash_slot_num, config.max_index_num, config.clock, write=False)
        batch_size = config.mapper_file_size_batch_consume_queue
        batch_table = BatchQueueTable(paths.batch_consume_queue, batch_size, write=False)
        log = FollowedLog(paths, files, view, table, batch_table)
        promises = None
        if believes_promises:
            promises = PromisedQueues(paths, table, LogPromises(paths, config, files, table, batch_table))
        queues = FollowedQueues(paths, log, table, batch_table, promises)
        table.refresh()
        reads = ReadSources.of(config, files, view, queues, index, log.end)
        return cls(reads, log, queues, (table, batch_table), meta_mark)

    def may_fit_no_more(self) -> bool:
        """Return True if sizes may only be known now (the store was empty), or a writer may use other paths."""
        return len(self.reads.files) == 0 or self.queues.paths.meta_mark() != self.meta_mark

    def close(self) -> None:
        """Close all files."""
        for table in self.tables:
            table.close()
        self.reads.files.close()
        self.reads.index.close()
