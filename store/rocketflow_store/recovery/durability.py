"""Durability of recovered data: it is synced before it is trusted, whatever the stop left.

After a failed sync, memory shows pages as they were written, but no later sync writes them: the system counts them as
clean. So the log after the last frontier is written again, byte for byte, before it is synced; recovery writes the
units and index entries of these records anyway, since it dispatches them. The name that a killed process gave a file
is as little durable as its bytes: every directory is synced too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files import os_files

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable


def make_log_durable(files: MappedFileQueue, rewrite_from: int, end: int) -> None:
    """Write [rewrite_from, end) of the log, and the zeros after it, once more; sync every file that may need it."""
    for mapped in files.files:
        if mapped.end_offset > rewrite_from:
            start = max(rewrite_from, mapped.file_from_offset) - mapped.file_from_offset
            stop = min(end, mapped.end_offset) - mapped.file_from_offset
            mapped.rewrite(start, stop)
        mapped.sync()
    for directory in files.directories.writable:
        os_files.sync_directory(directory)


def make_derived_durable(
    paths: StorePaths, queues: FileQueueTable, batch_queues: BatchQueueTable, index: IndexService, *, unclean: bool
) -> None:
    """Sync queues and index; after an unclean stop also every directory of the store."""
    queues.sync()
    for queue in queues.all():
        queue.created |= unclean
    for batch_queue in batch_queues.all():
        batch_queue.created |= unclean
        batch_queue.sync()
    index.sync()
    queues.sync_directories()
    if unclean:
        for directory in (paths.index, paths.config, paths.rocketflow, paths.root):
            if directory.is_dir():
                os_files.sync_directory(directory)
