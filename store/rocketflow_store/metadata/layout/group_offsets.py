"""Offsets of consumer groups as lag tools read them, written and read without the store's lock.

If no writer has the store open, `config/consumerOffset.json` is changed on behalf of its broker: the file is read, the
group's entries are replaced, the result is written under a temporary name and renamed, and the old file is kept as
`.bak`. While a writer has the store open, the file belongs to that writer (a broker rewrites it every 5 s): offsets
then go to `rocketflow/consumerOffset.json`, in the same format, and the first publication after the writer has stopped
moves them into the real file. A broker with enableLmq has its table in `config/lmqConsumerOffset.json`: if that file
exists, it is changed too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.files import os_files
from rocketflow_store.files.lock import file_lock, lock_holder
from rocketflow_store.metadata.config_files import ConfigFiles, ConsumerOffsetsFile
from rocketflow_store.metadata.native.root_paths import RootPaths

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    GroupOffsets = Mapping[tuple[str, int], int]
    """Next queue offsets by (topic, queue id)."""


def group_offsets(root: Path) -> dict[tuple[str, str], dict[int, int]]:
    """Return the next offsets by (topic, group) and queue id, merged from both files that a broker may keep them in."""
    found: dict[tuple[str, str], dict[int, int]] = {}
    for file in ConfigFiles(RootPaths(root).config).positions:
        for key, offsets in file.table().items():
            found[key] = {**found.get(key, {}), **offsets}
    return found


def publish_group_offsets(root: Path, group: str, offsets: GroupOffsets) -> Path:
    """Write a group's offsets for the store at `root`, and return the file they were written to.

    Raises: OSError, StoreError: The file cannot be read or written.
    """
    paths = RootPaths(root)  # none of these moves with storePathCommitLog
    side_directory = paths.rocketflow
    os_files.make_last_directory(side_directory)
    with file_lock(side_directory / "consumerOffset.lock"):
        held_back = ConsumerOffsetsFile(side_directory)
        news: dict[tuple[str, str], dict[int, int]] = {}
        for (topic, queue_id), offset in offsets.items():
            news.setdefault((topic, group), {})[queue_id] = offset
        if lock_holder(paths.lock, paths.kept_directories) is not None:
            held_back.commit_all(news)
            return side_directory / ConsumerOffsetsFile.NAME
        os_files.make_last_directory(paths.config)
        merged = held_back.table()
        for name, queues in news.items():
            merged[name] = {**merged.get(name, {}), **queues}
        files = ConfigFiles(paths.config)
        files.consumer_offsets.commit_all(merged)
        if files.lmq_consumer_offsets.path.exists():  # a broker with enableLmq reads that one
            files.lmq_consumer_offsets.commit_all(merged)
        for name_there in (ConsumerOffsetsFile.NAME, ConsumerOffsetsFile.NAME + ".bak"):
            os_files.remove_file(side_directory / name_there)
        return files.consumer_offsets.path
