"""Topics and queues that config/topics.json lists, as far as it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files.directory_entries import directory_entries
from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.model.errors import StoreError

if TYPE_CHECKING:
    from rocketflow_store.metadata.native.root_paths import RootPaths


def listed_queues(paths: RootPaths) -> dict[str, int] | None:
    """How many queues each topic of `config/topics.json` has; None where it does not tell, or is not there."""
    try:
        topics = ConfigFiles(paths.config).topics
        found = topics.topics()
    except StoreError:
        return None
    queues = {name: max(one.read_queue_nums, one.write_queue_nums) for name, one in found.items()}
    return queues if found or topics.path.exists() else None


def listed_topics(paths: RootPaths, files: ConfigFiles | None = None) -> frozenset[str] | None:
    """Topics of `config/topics.json`; None where it does not tell, or is not there."""
    topics = (files or ConfigFiles(paths.config)).topics
    try:
        found = topics.topics()
    except StoreError:
        return None
    return frozenset(found) if found or topics.path.exists() else None


def batch_topics(paths: RootPaths, files: ConfigFiles | None = None) -> frozenset[str]:
    """Topics with batch queues: their attribute says so, or they have such a directory."""
    there = {one.name for one in directory_entries(paths.batch_consume_queue) if not one.is_file}
    try:
        topics = (files or ConfigFiles(paths.config)).topics.topics()
    except StoreError:
        return frozenset(there)
    return frozenset(there | {name for name, one in topics.items() if one.is_batch_cq})
