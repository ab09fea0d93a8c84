"""A query's position, published as a consumer group's offsets in RocketMQ's file for lag tools.

The checkpoint holds the position that counts. A broker of RocketFlow that serves the store is asked to commit the
offsets. While another process has locked the store, they wait in a file beside RocketMQ's: see
`metadata.layout.group_offsets` of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rocketflow.errors import RocketFlowError
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow.store_writes import find_broker
from rocketflow_store.spi.tables import publish_group_offsets

_log: Final = logging.getLogger("rocketflow.spark.group_progress")


class GroupProgress:
    """Publishes the offsets of one consumer group to the stores of a read. Failures are logged, never raised.

    `publish_to` (store, group, offsets) is the method `publish` of the stores.
    """

    def __init__(self, group: str, publish_to: Callable[[str, str, Mapping[QueueKey, int]], None]) -> None:
        self._group, self._publish_to = group, publish_to
        self._published: dict[QueueKey, int] = {}
        self._warned: set[str] = set()

    def publish(self, offsets: Mapping[QueueKey, int]) -> None:
        """Publish `offsets` (next queue offset by queue), unless none has moved since the last call."""
        if all(self._published.get(key) == offset for key, offset in offsets.items()):
            return
        for name in {key.store for key in offsets}:
            mine = {key: offset for key, offset in offsets.items() if key.store == name}
            try:
                self._publish_to(name, self._group, mine)
            except (OSError, RocketFlowError) as error:
                if name not in self._warned:
                    self._warned.add(name)
                    _log.warning("progress of group %s is not published: %s", self._group, error)
            else:
                self._published |= mine
                self._warned.discard(name)


def publish_offsets(root: Path, group: str, offsets: Mapping[QueueKey, int]) -> Path | None:
    """Commit the group's offsets for the store at `root`; return the file that they were written to, None by a broker.

    Raises:
        OSError, StoreError: the file cannot be read or written, or the broker refused the offsets.
        UsageError: a broker serves the store, and this environment cannot speak to it.
    """
    news = {(key.topic, key.queue_id): at for key, at in offsets.items()}
    broker = find_broker(root, None)
    if broker is None:
        return publish_group_offsets(root, group, news)
    broker.publish_offsets(group, news)
    return None
