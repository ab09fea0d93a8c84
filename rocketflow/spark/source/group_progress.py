"""A query's position, published as a consumer group's offsets in RocketMQ's file for lag tools.

The checkpoint holds the position that counts. While another process has locked the store, the offsets wait in a file
beside RocketMQ's: see `metadata.layout.group_offsets` of the store.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rocketflow.spark.source.store_access import SourceStores
from rocketflow.spark.source.stream_offset import QueueKey
from rocketflow_store import StoreError
from rocketflow_store.spi.tables import publish_group_offsets

_log: Final = logging.getLogger("rocketflow.spark.group_progress")


class GroupProgress:
    """Publishes the offsets of one consumer group to the stores of a read. Failures are logged, never raised."""

    def __init__(self, group: str, stores: SourceStores) -> None:
        self._group, self._stores = group, stores
        self._published: dict[QueueKey, int] = {}
        self._warned: set[str] = set()

    def publish(self, offsets: Mapping[QueueKey, int]) -> None:
        """Publish `offsets` (next queue offset by queue), unless none has moved since the last call."""
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
    """Write the group's offsets for the store at `root`; return the file that they were written to.

    Raises:
        OSError, StoreError: the file cannot be read or written.
    """
    return publish_group_offsets(root, group, {(key.topic, key.queue_id): at for key, at in offsets.items()})
