"""Units of queues that are not plain: of BatchCQ topics, and of the LMQs (light message queues) of a record."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.format.consume_queue_unit import UNIT_STRUCT
from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.model.topic_names import is_directory_name
from rocketflow_store.records.arrow.queue_column import QueueColumn
from rocketflow_store.records.arrow.unit_types import BATCH_UNIT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.dispatch.run_rows import SideRow
    from rocketflow_store.views.queues.batch_consume_queue import BatchQueueTable
    from rocketflow_store.views.queues.queue_table import FileQueueTable


class SideQueues:
    """Writes the units of BatchCQ queues and LMQs.

    LMQs get units with `multi_dispatch` (RocketMQ's enableMultiDispatch), and if they already exist.
    """

    def __init__(
        self,
        queues: FileQueueTable,
        batch_queues: BatchQueueTable,
        has_batch_cq: Callable[[str], bool],
        *,
        multi_dispatch: bool,
    ) -> None:
        self._queues, self._batch_queues, self._has_batch_cq = queues, batch_queues, has_batch_cq
        self._multi_dispatch = multi_dispatch
        self._plain: set[str] = set()
        """Topics whose messages have plain queues, and which therefore keep them."""

    def is_batch_cq(self, topic: str) -> bool:
        """Return True if a topic's queues have one unit per batch: by its attribute, or because such a queue exists."""
        return self._has_batch_cq(topic) or self._batch_queues.has_topic(topic)

    def forget(self, topic: str) -> None:
        """Forget the kind of a deleted topic; a new topic of that name may be of the other kind."""
        self._plain.discard(topic)

    def is_plain(self, topic: str) -> bool:
        """Return True if a topic's queues have a unit for each message; such a topic keeps them."""
        if topic in self._plain:
            return True
        if self.is_batch_cq(topic):
            return False
        self._plain.add(topic)
        return True

    def put_one(self, row: SideRow) -> None:
        """Write the units of one record."""
        for name, queue_offset in row.lmq:
            self._put_lmq(name, queue_offset, row.phy_offset, row.size, row.tags_code)
        if row.queue_id < 0:
            return
        unit = np.zeros(1, BATCH_UNIT_DTYPE)
        unit[0] = (
            *(row.phy_offset, row.size, row.tags_code, row.store_timestamp, row.queue_offset),
            *(row.batch_num, -1, 0),
        )
        self._batch_queues.add(row.topic, row.queue_id).put(unit)

    def take(self, rows: DispatchRows) -> DispatchRows:
        """Write the units of consecutive records; return the rows with these queues removed."""
        for row, name, queue_offset in rows.lmq:
            place = int(rows.phy_offsets[row]), int(rows.sizes[row])
            self._put_lmq(name, queue_offset, *place, int(rows.tags_codes[row]))
        queues = QueueColumn.of(rows.queues)
        topics = [code for code, topic in enumerate(queues.topics) if self.is_batch_cq(topic)]
        if not topics:
            return rows
        mine = np.flatnonzero(np.isin(queues.topic_of, topics)).tolist()
        queue_of = rows.queue_of.copy()
        for code in mine:
            at = np.flatnonzero(rows.queue_of == code)
            queue_of[at] = -1
            if len(at):
                self._batch_queues.add(*rows.queues[code]).put(batch_units(rows, at))
        return replace(rows, queue_of=queue_of)

    def _put_lmq(self, name: str, queue_offset: int, phy_offset: int, size: int, tags_code: int) -> None:
        queue = self._queues.find(name, LMQ_QUEUE_ID)
        if queue is None and self._multi_dispatch and is_directory_name(name):
            queue = self._queues.add(name, LMQ_QUEUE_ID)
        if queue is not None:
            queue.put_bytes(queue_offset, UNIT_STRUCT.pack(phy_offset, size, tags_code))


def batch_units(rows: DispatchRows, at: npt.NDArray[np.intp]) -> npt.NDArray[np.void]:
    """Return the units of the records `at` of `rows`, all of one queue."""
    units = np.zeros(len(at), BATCH_UNIT_DTYPE)
    units["phy_offset"], units["msg_size"] = rows.phy_offsets[at], rows.sizes[at]
    units["tags_code"], units["store_timestamp"] = rows.tags_codes[at], rows.store_timestamps[at]
    units["msg_base_offset"], units["compacted_offset"] = rows.queue_offsets[at], -1
    units["batch_size"] = 1 if rows.batch_nums is None else rows.batch_nums[at]
    return units
