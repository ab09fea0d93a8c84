"""A run of single records: each gets its offsets in turn, then all are written with one write.

The queue offsets advance only when the complete run is written and published.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final

from rocketflow_store.files.open_files import OPEN_FILES
from rocketflow_store.format.record import place_record
from rocketflow_store.log.commit_log import LOG_END
from rocketflow_store.views.dispatch.run_rows import RunRows, SideRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.model.kernel_objects import Records, SentRecords
    from rocketflow_store.records.encoding.batch_records import BatchRecords
    from rocketflow_store.records.encoding.unplaced_record import UnplacedRecord
    from rocketflow_store.views.queues.queue_offsets import QueueOffsets


MAX_RUN_MESSAGES: Final = 1024
MAX_RUN_BYTES: Final = 4 << 20


class RecordRun:
    """One run that starts at the log's end; the caller holds the put lock."""

    __slots__ = (
        "_commit_log",
        "_is_plain",
        "_offsets",
        "_parts",
        "_property_crc",
        "_room_to",
        "_written",
        "count",
        "end",
        "next_offsets",
        "rows",
        "store_timestamp",
        "stretches",
    )

    def __init__(
        self,
        commit_log: CommitLog,
        offsets: QueueOffsets,
        is_plain: Callable[[str], bool],
        store_timestamp: int,
        *,
        property_crc: bool = False,
    ) -> None:
        """Start an empty run; `is_plain(topic)` returns True if the topic's queues have a CqUnit for each message."""
        self._commit_log, self._offsets, self._is_plain = commit_log, offsets, is_plain
        self._property_crc = property_crc
        self.store_timestamp = store_timestamp
        self.end = commit_log.numbers[LOG_END]
        self.count = 0
        self._room_to = -1
        """End offset of the space in the current log file; -1 before the first record."""
        self.rows = RunRows(store_timestamp)
        """The rows to dispatch."""
        self._parts: list[bytes | bytearray] = []
        self._written = 0
        self.stretches: list[tuple[int, int]] = []
        """See `CommitLog.append`."""
        self.next_offsets: dict[tuple[str, int], int] = {}
        """Next offset of each queue that this run uses."""

    def next_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that the queue's next message of this run gets.

        Raises DescriptorLimitError if it is the first message of the queue, and no file can be opened for it.
        """
        following = self.next_offsets.get((topic, queue_id))
        if following is None:
            following = self._offsets.next(topic, queue_id)
            if following == 0:
                OPEN_FILES.check_new(f"queue {queue_id} of topic {topic}")
            self.next_offsets[topic, queue_id] = following
        return following

    def take_offsets(self, topic: str, queue_id: int, count: int) -> None:
        """Reserve the queue's next `count` offsets."""
        self.next_offsets[topic, queue_id] = self.next_offset(topic, queue_id) + count

    def place(self, size: int) -> int:
        """Reserve the next `size` bytes within one log file; return their physical offset."""
        phy_offset = self._begin_of(size)
        self.end = phy_offset + size
        self._written += size
        return phy_offset

    def _begin_of(self, size: int) -> int:
        """Return where the next `size` bytes begin: in the next log file if this one has no space for them."""
        if self.end + size <= self._room_to:
            return self.end
        phy_offset, self._room_to = self._commit_log.place_one(size, self.end)
        if phy_offset != self.end or not self.stretches:
            self.stretches.append((phy_offset, self._written))
        return phy_offset

    def add(self, one: UnplacedRecord, phy_offset: int | None = None) -> tuple[int, int]:
        """Add a record, at `phy_offset` if `place` reserved it; return its queue offset and physical offset.

        Raises DescriptorLimitError as `next_offset` does, before anything is placed.
        """
        before, rest, size, topic, queue_id, tags_code, keys, batch_num, lmq = one
        queue_offset, queue = 0, (topic, queue_id)
        if queue_id >= 0:
            known = self.next_offsets.get(queue)
            queue_offset = self._offsets.next(topic, queue_id) if known is None else known
            if queue_offset == 0 and known is None:
                OPEN_FILES.check_new(f"queue {queue_id} of topic {topic}")
        if phy_offset is None:
            phy_offset = self.place(size)
        self._parts.append(place_record(before, rest, queue_offset, phy_offset, self._property_crc))
        rows, plain = self.rows, queue_id >= 0 and self._is_plain(topic)
        rows.add(queue if plain else None, queue_offset, phy_offset, size, tags_code, keys)
        if lmq or (queue_id >= 0 and not plain):
            place = -1 if plain else queue_id, queue_offset, phy_offset, size
            rows.add_side(SideRow(topic, *place, tags_code, self.store_timestamp, batch_num, lmq))
        if queue_id >= 0:
            self.next_offsets[queue] = queue_offset + batch_num
        self.count += 1
        return queue_offset, phy_offset

    def add_batch(self, batch: BatchRecords) -> tuple[int, list[int]]:
        """Add records of one plain queue within one log file; return the first queue offset and physical offsets."""
        queue = batch.topic, batch.queue_id
        first, sizes = self.next_offset(*queue), batch.sizes
        *places, _ = accumulate(sizes, initial=self.place(sum(sizes)))
        self._parts += batch.place(first, places[0], property_crc=self._property_crc)
        self.rows.add_batch(queue, first, places, batch)
        self.next_offsets[queue] = first + len(sizes)
        self.count += len(sizes)
        return first, places

    def add_records(self, records: Records, topic: str, queue_id: int) -> tuple[int, int] | None:
        """Add records of the kernel within one log file; return their first queue offset and physical offset.

        None, and nothing is added, if the topic is not plain. Raises DescriptorLimitError as `next_offset` does.
        """
        first = self.next_offset(topic, queue_id)
        if not self._is_plain(topic):
            return None
        phy_offset = self.place(records.size)
        self._parts.append(records.data)
        queue = topic, queue_id
        self.rows.add_placed(queue, first, phy_offset, *records.place(first, phy_offset))
        self.next_offsets[queue] = first + records.count
        self.count += records.count
        return first, phy_offset

    def add_sent(self, records: SentRecords) -> int:
        """Add the records of usual sends, whose queues are plain; return the physical offset of the first.

        Raises DescriptorLimitError as `next_offset` does, before anything is placed.
        """
        every = records.queues
        firsts = [self.next_offset(topic, queue_id) for topic, queue_id, _ in every]
        records.begin(firsts, self.store_timestamp)
        first, number = -1, 0
        while number < records.request_count:
            phy_offset = self._begin_of(records.size_of(number))
            first = first if number else phy_offset
            number, data = records.place(number, phy_offset, self._room_to)
            self._parts.append(data)
            self._written += len(data)
            self.end = phy_offset + len(data)
        self.rows.add_sent(every, firsts, (first, records.last), *records.rows())
        for (topic, queue_id, count), offset in zip(every, firsts):
            self.next_offsets[topic, queue_id] = offset + count
        self.count += records.count
        return first

    def advance(self, offsets: QueueOffsets) -> None:
        """Advance the queues of the run past its records."""
        offsets.move_to(self.next_offsets)

    def data(self) -> bytes | bytearray:
        """Return the records' bytes, whose offsets in the log are `stretches`."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
