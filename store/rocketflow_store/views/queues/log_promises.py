"""The units that the records of a log promise, where no file of the writer has recorded the ends of its queues.

The log between a writer's last flush and its confirm offset: every record of it has a unit. If no writer has the store
open, all of it is read, beside a writer the first few MiB. For a store of another writer, the newest records of the
log, and the offsets of consumers.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from rocketflow_store.metadata.config_files import ConfigFiles
from rocketflow_store.metadata.layout.store_paths import store_holder
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.views.queues.log_queues import queues_of_log

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.metadata.layout.store_paths import StorePaths
    from rocketflow_store.metadata.native.confirm import Confirmed
    from rocketflow_store.settings.store_config import StoreConfig
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable

Queue = tuple[str, int]

_BESIDE_A_WRITER: Final = 16 << 20
_OF_ANOTHER_WRITER: Final = 4 << 20
_HEAD: Final = 16 << 20
"""So many bytes at the begin of the log are read for queues that no record promises."""


class LogQueues(NamedTuple):
    """By queue, the first queue offset and the one after the last, in the records of a part of the log."""

    plain: dict[Queue, tuple[int, int]]
    batch: dict[Queue, tuple[int, int]]


class LogPromises:
    """Reads the queue offsets of records, each part of the log once."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        files: MappedFileQueue,
        queues: FileQueueTable,
        batch_queues: BatchQueueTable,
    ) -> None:
        self._paths, self._config, self._files = paths, config, files
        self._queues, self._batch_queues = queues, batch_queues
        self._scanned_for: tuple[int, tuple[int, int]] = -1, (-1, -1)
        self._found = LogQueues({}, {})
        self._head: tuple[int, LogQueues] = -1, self._found

    def look(
        self, confirmed: Confirmed | None, writer: int, deleted: tuple[int, int], *, same_writer: bool
    ) -> LogQueues:
        """Return the queue offsets of records newer than the recorded ends; they are read once a writer.

        `writer` and `deleted` are the marks of the `abort` file and of the deleted topics; `same_writer` says whether
        the present state of the store is that of the writer whose ends are recorded.
        """
        if (writer, deleted) == self._scanned_for:
            return self._found
        self._scanned_for, self._found = (writer, deleted), LogQueues({}, {})
        running = writer and store_holder(self._paths) is not None
        if confirmed is not None:
            start, stop = confirmed.durable_offset, confirmed.confirm_offset
            if running:
                stop = min(stop, start + _BESIDE_A_WRITER)
            self._found = self._known_lmqs(self._between(start, stop))
        elif not same_writer and not running and self._files.last is not None:
            self._ask_another_writer(stopped_in_order=not writer)
        return self._found

    def head(self, min_phy_offset: int) -> LogQueues:
        """Return the queue offsets of the records in the first 16 MiB of the log."""
        if self._head[0] != min_phy_offset:
            self._head = min_phy_offset, self._between(min_phy_offset, min_phy_offset + _HEAD)
        return self._head[1]

    def _ask_another_writer(self, *, stopped_in_order: bool) -> None:
        """Expect units of the newest records, and queues that consumers have read."""
        units = self._queues.last_units()
        of_batches = self._batch_queues.last_units()
        places = np.concatenate([one["phy_offset"].astype(np.int64) for one in (units, of_batches)])
        ends = np.concatenate([one["phy_offset"].astype(np.int64) + one["msg_size"] for one in (units, of_batches)])
        last = self._files.last
        assert last is not None
        reached = int(ends.max(initial=0))
        # Dispatch follows the log: before the newest unit every record has one; after an orderly stop all of them do.
        stop = last.end_offset if stopped_in_order else reached
        least = max(reached, last.file_from_offset) - _OF_ANOTHER_WRITER
        boundaries = [one.file_from_offset for one in self._files.files if one.file_from_offset >= least]
        start = int(places[places >= least].min(initial=min(boundaries, default=stop)))
        self._found = self._known_lmqs(self._between(start, stop))
        if self._files.first_offset > 0:
            return  # RocketMQ deletes a queue when all of its messages are expired
        for key, offset in self._read_by_consumers().items():
            if self._queues.find(*key) is None and self._batch_queues.find(*key) is None:
                self._found.plain.setdefault(key, (0, offset))

    def _known_lmqs(self, found: LogQueues) -> LogQueues:
        """Drop LMQs that have no files: only a writer with multi dispatch writes units for them."""
        plain = {
            key: offsets
            for key, offsets in found.plain.items()
            if not key[0].startswith(LMQ_PREFIX) or self._queues.find(*key) is not None
        }
        return LogQueues(plain, found.batch)

    def _read_by_consumers(self) -> dict[Queue, int]:
        """Return the highest offset of any consumer in each queue."""
        found: dict[Queue, int] = {}
        for file in ConfigFiles(self._paths.config).positions:
            with suppress(StoreError):
                for (topic, _), offsets in file.table().items():
                    for queue_id, offset in offsets.items():
                        if offset > 0:
                            found[topic, queue_id] = max(found.get((topic, queue_id), 0), offset)
        return found

    def _between(self, start: int, stop: int) -> LogQueues:
        """Return the queue offsets of the sound records of `[start, stop)`; `start` is a record boundary."""
        return LogQueues(*queues_of_log(self._paths, self._config, self._files, start, stop))
