"""A query's position as a consumer group's offsets, in RocketMQ's own file, for lag tools; the checkpoint is the truth.

A store that nobody writes gets `config/consumerOffset.json` changed in place of its broker: read, the group's entries
replaced, written under a temporary name, renamed, the old one kept as `.bak`. While a writer owns the store its file
is its own (a broker writes its table over it every 5 s): progress then goes to `rocketflow/consumerOffset.json`, in the
same format, and moves into the real file with the first publication after the writer has gone. A broker with enableLmq
has its table in `config/lmqConsumerOffset.json`: where there is one it is changed too.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store.files.lock import lock_holder
from rocketflow_store.metadata.config_files import ConfigFiles, ConsumerOffsetsFile
from rocketflow_store.metadata.layout.store_paths import StorePaths
from rocketflow_store.model.errors import StoreError

_log: Final = logging.getLogger("rocketflow.spark.group_progress")


class GroupProgress:
    """Publishes the offsets of one consumer group to the stores of a read. Failures are logged, never raised."""

    def __init__(self, group: str, stores: SourceStores) -> None:
        self._group, self._stores = group, stores
        self._published: dict[QueueKey, int] = {}
        self._warned: set[str] = set()

    def publish(self, offsets: Mapping[QueueKey, int]) -> None:
        """Make `offsets` (next queue offset by queue) known; queues that did not move are not written again."""
        if all(self._published.get(key) == offset for key, offset in offsets.items()):
            return
        for name in {key.store for key in offsets}:
            mine = {key: offset for key, offset in offsets.items() if key.store == name}
            try:
                publish_offsets(Path(self._stores.path(name)), self._group, mine)
            except (OSError, StoreError) as error:
                if name not in self._warned:
                    self._warned.add(name)
                    _log.warning("progress of group %s is not published: %s", self._group, error)
            else:
                self._published |= mine
                self._warned.discard(name)


def publish_offsets(root: Path, group: str, offsets: Mapping[QueueKey, int]) -> Path:
    """Write the group's offsets for the store at `root`; the file that took them.

    OSError or StoreError where it cannot be read or written.
    """
    paths = StorePaths(root)  # none of these moves with storePathCommitLog
    side_directory = paths.rocketflow
    with _one_publisher(side_directory):
        held_back = ConsumerOffsetsFile(side_directory)
        news: dict[tuple[str, str], dict[int, int]] = {}
        for key, offset in offsets.items():
            news.setdefault((key.topic, group), {})[key.queue_id] = offset
        if lock_holder(paths.lock) is not None:
            held_back.commit_all(news)
            return side_directory / ConsumerOffsetsFile.NAME
        paths.config.mkdir(exist_ok=True)
        merged = held_back.table()
        for name, queues in news.items():
            merged[name] = {**merged.get(name, {}), **queues}
        files = ConfigFiles(paths.config)
        files.consumer_offsets.commit_all(merged)
        if files.lmq_consumer_offsets.path.exists():  # a broker with enableLmq reads that one
            files.lmq_consumer_offsets.commit_all(merged)
        for name_there in (ConsumerOffsetsFile.NAME, ConsumerOffsetsFile.NAME + ".bak"):
            (side_directory / name_there).unlink(missing_ok=True)
        return files.consumer_offsets.path


@contextmanager
def _one_publisher(directory: Path) -> Iterator[None]:
    directory.mkdir(exist_ok=True)
    descriptor = os.open(directory / "consumerOffset.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
