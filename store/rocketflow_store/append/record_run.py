"""Records that come together into the log with one write: places and queue offsets in turn, then bytes, then units.

Nothing of a run counts before it is written as a whole: offsets of queues are advanced and the log's end is published
only then, and what a failed write left is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.records.decoding.decode import RecordColumns
from rocketflow_store.records.decoding.dispatch_rows import rows_of_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.records.decoding.dispatch_rows import DispatchRow, DispatchRows
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets

MAX_RUN_MESSAGES: Final = 1024
MAX_RUN_BYTES: Final = 4 << 20


class RecordRun:
    """One run, begun at the log's end; under the put lock.

    `rows` takes what dispatch needs of single records; a run that holds none of it (`by_columns`) tells it from the
    records' bytes, all at once.
    """

    __slots__ = (
        "_bytes",
        "_commit_log",
        "_next",
        "_offsets",
        "_parts",
        "_phy_offsets",
        "_sizes",
        "_stretches",
        "by_columns",
        "count",
        "end",
        "rows",
    )

    def __init__(self, commit_log: CommitLog, offsets: QueueOffsets, *, by_columns: bool) -> None:
        self._commit_log, self._offsets = commit_log, offsets
        self.by_columns = by_columns
        self.end = commit_log.wrote_offset
        self.rows: list[DispatchRow] = []
        self.count = 0
        self._parts: list[bytes | memoryview] = []
        self._bytes = 0
        self._stretches: list[tuple[int, int]] = []
        self._phy_offsets: list[int] = []
        self._sizes: list[int] = []
        self._next: dict[tuple[str, int], int] = {}

    def next_offset(self, topic: str, queue_id: int) -> int:
        """The offset that the queue's next message of this run gets."""
        following = self._next.get((topic, queue_id))
        if following is None:
            following = self._next[topic, queue_id] = self._offsets.next(topic, queue_id)
        return following

    def take_offsets(self, topic: str, queue_id: int, count: int) -> None:
        """The queue's next `count` offsets are given away."""
        self._next[topic, queue_id] = self.next_offset(topic, queue_id) + count

    def where(self, size: int) -> int:
        """Physical offset of the next record, if it has `size` bytes."""
        return self._commit_log.place_one(size, self.end)

    def place(self, size: int) -> int:
        """Physical offset of the next `size` bytes, which lie in one file and are given away."""
        phy_offset = self.where(size)
        self._occupy(phy_offset, size)
        return phy_offset

    def _occupy(self, phy_offset: int, size: int) -> None:
        if phy_offset != self.end or not self._stretches:
            self._stretches.append((phy_offset, self._bytes))
        self.end = phy_offset + size
        self._bytes += size

    def add(self, record: bytes, phy_offset: int) -> None:
        """The next record, at the place that `where` told."""
        self._occupy(phy_offset, len(record))
        self._parts.append(record)
        self.count += 1
        if self.by_columns:
            self._phy_offsets.append(phy_offset)
            self._sizes.append(len(record))

    def add_many(self, records: memoryview, phy_offsets: Sequence[int], sizes: Sequence[int]) -> None:
        """Records one behind another, at the places that `place` gave."""
        self._parts.append(records)
        self.count += len(sizes)
        self._phy_offsets += phy_offsets
        self._sizes += sizes

    def dispatched(self, delay_levels_ms: Sequence[int]) -> list[DispatchRow] | DispatchRows:
        """What is to be dispatched."""
        if not self.by_columns:
            return self.rows
        sizes = np.array(self._sizes, np.int64)
        records = RecordColumns(pa.py_buffer(self._data()), np.cumsum(sizes) - sizes, sizes)
        rows = rows_of_records(records, 0, delay_levels_ms)
        rows.phy_offsets = np.array(self._phy_offsets, np.int64)
        return rows

    def write(self) -> None:
        """Write the records; what a failed write left is taken back."""
        self._commit_log.append(self._data(), self._stretches)

    def publish(self) -> None:
        """The log ends behind the run, and the queues advance: no offset is known of what is not in the log."""
        self._commit_log.publish(self.end)
        self._offsets.move_to(self._next)

    def _data(self) -> bytes | memoryview:
        if len(self._parts) > 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]
