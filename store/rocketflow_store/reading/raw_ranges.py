"""Ranges of a queue as the bytes of their records, many at once, for programs that check every record themselves.

Place, size, queue and topic of each record are checked here, its CRC is not: a receiver calculates it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.model.errors import UnreadableError
from rocketflow_store.reading.queue_identity import queue_identity
from rocketflow_store.records.arrow.gather import gather
from rocketflow_store.views.queues.consume_queue import lost, pre_blank, written

if TYPE_CHECKING:
    from rocketflow_store.log.log_view import CommitLogView
    from rocketflow_store.reading.queue_table import QueueTable
    from rocketflow_store.settings.store_config import StoreConfig

MOST_ROWS: Final = 16_384


@dataclass(frozen=True, slots=True)
class RawRange:
    """Records of the queue offsets from the start of a range to `next_offset`, one after the other."""

    data: memoryview
    next_offset: int
    min_offset: int
    max_offset: int

    def rows_from(self, start: int) -> int:
        """Return the number of records for a range that began at `start`."""
        return self.next_offset - start if self.data else 0


def read_raw_range(
    log: CommitLogView,
    queues: QueueTable,
    config: StoreConfig,
    queue: tuple[str, int],
    span: tuple[int, int],
    max_bytes: int,
) -> RawRange:
    """Read records of the first offsets of `span`, up to `max_bytes` (the first whatever its size) of one file.

    It ends before a message that is missing or is another one, and is empty if that is the first: then a read of
    single messages decides. Queues of BatchCQ topics and LMQs are always empty.
    """
    topic, queue_id = queue
    start, end = span
    plain, (low, high) = queues.find(topic, queue_id), queues.bounds(topic, queue_id)
    nothing = RawRange(memoryview(b""), start, low, high)
    identity = queue_identity(config, topic, queue_id)
    end = min(end, high, start + MOST_ROWS)
    if plain is None or not identity.exact or not low <= start < end:
        return nothing
    units = plain.units(start, min(end, plain.next_file(start)))
    sound = written(units) & ~pre_blank(units) & ~lost(units)
    fits = np.cumsum(np.maximum(units["msg_size"], 0), dtype=np.int64) <= max_bytes
    fits[:1] = True
    count = _leading(sound & fits)
    places = units["phy_offset"][:count].astype(np.int64)
    runs = log.by_file(places)
    if not runs or runs[0][0].start > 0:
        return nothing
    run, mapped = runs[0]
    try:
        records = log.columns(mapped, units[run])
    except UnreadableError:
        return nothing
    records.check_place(places[run], np.arange(start, start + run.stop), identity)
    count = min(records.faults) if records.faults else run.stop
    if count == 0:
        return nothing
    starts = records.positions[:count]
    values = gather(mapped.buffer, starts, starts + records.sizes[:count])
    return RawRange(memoryview(values.buffers()[2]), start + count, low, high)


def _leading(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Return the number of leading True values."""
    return len(mask) if mask.all() else int(np.argmin(mask))
