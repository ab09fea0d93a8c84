"""ConsumeQueue units of a range of queue offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rocketflow_store.model.errors import OffsetOutOfRangeError
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE, units_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.reading.faults import ReadFaults
    from rocketflow_store.reading.queue_table import QueueTable

    Units = npt.NDArray[np.void]
    Ints = npt.NDArray[np.int64]


def queue_units(queues: QueueTable, topic: str, queue_id: int, start: int, end: int, faults: ReadFaults) -> Units:
    """Return the units [start, end); for a BatchCQ topic, one for each message: that of its record.

    Raises:
        OffsetOutOfRangeError: the range is not within the queue's bounds, or a unit is missing. If `faults` continues
            without them, missing units of an existing queue are zeros.
    """
    low, high = queues.bounds(topic, queue_id)
    if start < low or end > high or start > end:
        raise OffsetOutOfRangeError(topic, queue_id, start if start < low else end, low, high)
    if start == end:
        return np.zeros(0, UNIT_DTYPE)
    batch_queue = queues.find_batch(topic, queue_id)
    if batch_queue is None:
        return plain_queue_units(queues, topic, queue_id, start, end, faults)
    holding = batch_queue.units_holding(start, end)
    found = plain_units(holding)[_record_of_message(holding, start, end)]
    if len(found) < end - start:
        raise OffsetOutOfRangeError(topic, queue_id, start + len(found), low, high)
    return found


def plain_queue_units(queues: QueueTable, topic: str, queue_id: int, start: int, end: int, faults: ReadFaults) -> Units:
    """Return units like `queue_units`, of a queue of no BatchCQ topic and of a range within its bounds."""
    queue = queues.find(topic, queue_id)
    found = queue.units(start, end) if queue is not None else np.zeros(0, UNIT_DTYPE)
    if len(found) == end - start:
        return found
    missing = OffsetOutOfRangeError(topic, queue_id, start + len(found), *queues.bounds(topic, queue_id))
    if queue is None:
        raise missing
    faults.meet(missing)
    return queue.units_or_zeros(start, end)


def plain_units(units: Units) -> Units:
    """Return units of a BatchCQ topic's queue as plain ones."""
    plain = units_of(units["phy_offset"], units["msg_size"])
    plain["tags_code"] = units["tags_code"]
    return plain


def units_of_messages(holding: Units, start: int, end: int) -> tuple[Units, Ints]:
    """Return, for each message of [start, end), the plain unit and the queue offset of the record that contains it.

    `holding` are a BatchCQ topic's units in order; messages in none of them get zeros.
    """
    units, offsets = np.zeros(end - start, UNIT_DTYPE), np.arange(start, end)
    plain = plain_units(holding)
    for number, (base, count) in enumerate(holding[["msg_base_offset", "batch_size"]].tolist()):
        first, last = max(base, start) - start, min(base + count, end) - start
        if first < last:
            units[first:last], offsets[first:last] = plain[number], base
    return units, offsets


def _record_of_message(units: Units, start: int, end: int) -> Ints:
    """Return which of a BatchCQ topic's units contains each message of [start, end); shorter if some are in none."""
    bases = units["msg_base_offset"].astype(np.int64)
    first, last = np.maximum(bases, start), np.minimum(bases + units["batch_size"], end)
    return np.repeat(np.arange(len(units)), np.maximum(last - first, 0))
