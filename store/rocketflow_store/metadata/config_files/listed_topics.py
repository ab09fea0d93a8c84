"""Topics and queues that config/topics.json lists, if it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files.directory_entries import directory_entries
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from rocketflow_store.metadata.native.root_paths import RootPaths


def listed_queues(paths: RootPaths) -> dict[str, int] | None:
    """Return the number of queues of each topic in `config/topics.json`; None if the file is missing or unreadable."""
    try:
        topics = ConfigFiles(paths.config).topics
        found = topics.topics()
    except StoreError:
        return None
    queues = {name: max(one.read_queue_nums, one.write_queue_nums) for name, one in found.items()}
    return queues if found or topics.path.exists() else None


def listed_topics(paths: RootPaths, files: ConfigFiles | None = None) -> frozenset[str] | None:
    """Return the topics in `config/topics.json`; None if the file is missing or unreadable."""
    topics = (files or ConfigFiles(paths.config)).topics
    try:
        found = topics.topics()
    except StoreError:
        return None
    return frozenset(found) if found or topics.path.exists() else None


def batch_topics(paths: RootPaths, files: ConfigFiles | None = None) -> frozenset[str]:
    """Return the topics with batch queues: by their attribute, or by a directory of batch queues."""
    there = {one.name for one in directory_entries(paths.batch_consume_queue) if not one.is_file}
    try:
        topics = (files or ConfigFiles(paths.config)).topics.topics()
    except StoreError:
        return frozenset(there)
    return frozenset(there | {name for name, one in topics.items() if one.is_batch_cq})
