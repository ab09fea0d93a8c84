"""Loss of the queues in which messages wait for their time: units alone would show nothing due in such a store."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rocketflow_store.delivery.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.delivery.timer.timer_rows import TIMER_QUEUE_ID
from rocketflow_store.metadata.config_files import DelayOffsetsFile
from rocketflow_store.model.errors import StoreError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC, TIMER_TOPIC

if TYPE_CHECKING:
    from rocketflow_store.reading.store_reader import StoreReader

_WAITING = (SCHEDULE_TOPIC, TIMER_TOPIC)


def waiting_queues_are_lost(reader: StoreReader) -> bool:
    """Return True if queue files have fewer units than the reader expects; opening the store for writing rebuilds them.

    Delivery positions after a queue's end are evidence too. A store whose log has messages and that has no queue at all
    has lost them.
    """
    if reader.max_phy_offset <= reader.min_phy_offset:
        return False
    if not reader.topics():
        return True
    return any(_lacks_units(reader, queue, end) for queue, end in _known_ends(reader).items())


def _lacks_units(reader: StoreReader, queue: tuple[str, int], end: int) -> bool:
    found = reader.find(*queue)
    return end > 0 and (found is None or found.scan_end() < end)


def _known_ends(reader: StoreReader) -> dict[tuple[str, int], int]:
    """Return the ends that the reader expects and those that delivery positions claim."""
    ends = [
        ((topic, queue_id), reader.bounds(topic, queue_id)[1])
        for topic in _WAITING
        for queue_id in reader.queues(topic)
    ]
    with suppress(StoreError):
        claimed = DelayOffsetsFile(reader.paths.config).offsets()
        ends += [((SCHEDULE_TOPIC, level - 1), end) for level, end in claimed.items()]
    with suppress(StoreError):
        timer = read_timer_checkpoint(reader.paths.timer_check)
        ends.append(((TIMER_TOPIC, TIMER_QUEUE_ID), timer.last_timer_queue_offset))
    found: dict[tuple[str, int], int] = {}
    for queue, end in ends:
        found[queue] = max(found.get(queue, 0), end)
    return found
