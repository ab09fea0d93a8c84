"""The end of the log of a store that is open for writing: its appends, its syncs, the fence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rocketflow_store.files.mapped.transient_store_pool import BufferedFiles, TransientStorePool
from rocketflow_store.log.commit_log import CommitLog
from rocketflow_store.log.fence import Fence
from rocketflow_store.log.group_flush import GroupFlush

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path
    from typing import Self

    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class LogWriter:
    """The open end of one log; `buffered` are the buffers of a TransientStorePool, None without one."""

    commit_log: CommitLog
    buffered: BufferedFiles | None
    fence: Fence
    flush: GroupFlush

    @classmethod
    def open(cls, root: Path, config: StoreConfig, files: MappedFileQueue, end: int, on_error: ExitStack) -> Self:
        """Continue a log that ends at the physical offset `end`."""
        buffered = None
        if config.transient_store_pool_used:
            pool = TransientStorePool(config.transient_store_pool_size, config.mapped_file_size_commit_log)
            buffered = BufferedFiles(pool, fail_fast=config.fast_fail_if_no_buffer_in_store_pool)
            on_error.callback(buffered.close)
        commit_log = CommitLog(files, end, buffered)
        fence = Fence(root, commit_log)
        return cls(commit_log, buffered, fence, GroupFlush(commit_log, fence, root))
