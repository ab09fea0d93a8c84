"""Records that queues claim to be in the log: evidence of what is damage, and what a torn tail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow_store.log.resync import is_complete
from rocketflow_store.records.decoding.decode import QueueIdentity
from rocketflow_store.views.queues.consume_queue import pre_blank

if TYPE_CHECKING:
    from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.views.queues.consume_queue import ConsumeQueue
    from rocketflow_store.views.queues.queue_table import FileQueueTable


class ClaimedRecords:
    """The records of a log as its ConsumeQueues claim them."""

    def __init__(self, files: MappedFileQueue, log: CommitLogView, queues: FileQueueTable) -> None:
        self._files, self._log, self._queues = files, log, queues

    def end_at(self, offset: int) -> int | None:
        """Return the end of the record that begins at `offset` by some queue's last unit, None without one."""
        mapped = self._files.find(offset)
        for queue in self._queues.all():
            end = queue.scan_end()
            unit = queue.units(max(end - 1, queue.first_unit), end)
            if len(unit) and int(unit["phy_offset"][-1]) == offset and mapped is not None:
                return min(offset + int(unit["msg_size"][-1]), mapped.end_offset)
        return None

    def complete_after(self, offset: int) -> int | None:
        """Return the first offset after `offset` where a queue's unit points at a complete record, None without one.

        Only the first unit after `offset` and the last unit of each queue are tried.
        """
        best: int | None = None
        for queue in self._queues.all():
            start, end = queue.first_unit, queue.scan_end()
            while start < end:  # first unit after offset
                middle = (start + end) // 2
                unit = queue.units(middle, middle + 1)
                if len(unit) and int(unit["phy_offset"][0]) <= offset:
                    start = middle + 1
                else:
                    end = middle
            last = queue.scan_end() - 1
            for number in (start, last) if last > start else (start,):
                phy_offset = self._complete_record_of(queue, number)
                if phy_offset is not None and phy_offset > offset:
                    best = phy_offset if best is None else min(best, phy_offset)
                    break
        return best

    def _complete_record_of(self, queue: ConsumeQueue, number: int) -> int | None:
        """Return the physical offset of a unit's record, None if the record is not complete."""
        units = queue.units(number, number + 1)
        identity = QueueIdentity(queue.topic, queue.queue_id, "")
        if not len(units) or pre_blank(units)[0] or not self._log.matches(units, number, identity)[0]:
            return None
        phy_offset = int(units["phy_offset"][0])
        mapped = self._files.find(phy_offset)
        if mapped is None or not is_complete(mapped, phy_offset - mapped.file_from_offset, mapped.file_size):
            return None
        return phy_offset
