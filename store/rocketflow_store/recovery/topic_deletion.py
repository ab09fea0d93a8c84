"""The deletion of a topic: it is noted (`layout.deleted_topics`), then its files are removed, even after a stop.

The log keeps the records until retention removes them. The note keeps them out of every rebuilt queue.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.native.deleted_topics import DeletedTopics
from rocketflow_store.metadata.native.stop_record import StopRecord

if TYPE_CHECKING:
    from pathlib import Path

    from rocketflow_store.metadata.layout.store_paths import StorePaths


def begin_deletion(paths: StorePaths, topic: str, floor: int) -> None:
    """Note the deletion: no record before `floor`, up to which the log is durable, is of this topic."""
    DeletedTopics.load(paths).deleted(topic, floor, unfinished=True).write(paths)


def finish_deletions(paths: StorePaths, files: ConfigFiles) -> None:
    """Remove the remains of topics whose deletion was begun; a second call changes nothing."""
    noted = DeletedTopics.load(paths)
    for topic in sorted(noted.unfinished):
        record = StopRecord.load(paths)
        if record is not None:
            record.without_topic(topic).write(paths)
        files.topics.remove(topic)
        for file in files.positions:
            file.remove_topic(topic)
        for parent in (paths.consume_queue, paths.consume_queue_ext, paths.batch_consume_queue):
            _remove_directory(parent / topic)
        noted = noted.deleted(topic, 0, unfinished=False)
        noted.write(paths)


def note_vanished(paths: StorePaths, topics: frozenset[str], log_end: int) -> None:
    """Note topics that another writer deleted: they are not listed and have no queue anymore."""
    noted = DeletedTopics.load(paths)
    parents = (paths.consume_queue, paths.batch_consume_queue)
    vanished = sorted(topic for topic in topics if not any((parent / topic).is_dir() for parent in parents))
    for topic in vanished:
        noted = noted.deleted(topic, log_end, unfinished=False)
    if vanished:
        noted.write(paths)


def fit_floors(paths: StorePaths, min_phy_offset: int, log_end: int) -> None:
    """Drop floors outside the log before the first append: records of a new topic will be after the log's end."""
    noted = DeletedTopics.load(paths)
    fitting = noted.within(min_phy_offset, log_end)
    if fitting != noted:
        fitting.write(paths)


def _remove_directory(directory: Path) -> None:
    if not os.path.lexists(directory):
        return
    os_files.remove_tree(directory)
    if os.path.lexists(directory):
        error = OSError(f"{directory} could not be removed")
        raise os_files.access_error(directory, error) from error
    os_files.sync_directory(directory.parent)
