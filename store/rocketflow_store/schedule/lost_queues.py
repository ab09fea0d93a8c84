"""Whether queues are gone in which messages wait for their time: by its units alone a store then has nothing due."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rocketflow_store.config_files import DelayOffsetsFile
from rocketflow_store.errors import StoreError
from rocketflow_store.layout.durable_ends import DurableEnds
from rocketflow_store.message import SCHEDULE_TOPIC, TIMER_TOPIC
from rocketflow_store.recovery.derived_state import believed_record
from rocketflow_store.timer.timer_checkpoint import read_timer_checkpoint
from rocketflow_store.timer.timer_rows import TIMER_QUEUE_ID

if TYPE_CHECKING:
    from rocketflow_store.store_reader import StoreReader


def waiting_queues_are_lost(reader: StoreReader) -> bool:
    """Whether less is there than was: opening the store for writing makes it again.

    Told by what the last writer left, and by positions that are behind the queues' ends; of a store whose log has
    messages and that has no queue at all it is taken for granted.
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
    paths, told = reader.paths, list[tuple[tuple[str, int], int]]()
    record, ends = believed_record(paths), DurableEnds.load(paths)
    if record is not None:
        told += [(queue, state.end) for queue, state in record.queues.items()]
    if ends is not None:
        told += ends.queues.items()
    with suppress(StoreError):
        told += [((SCHEDULE_TOPIC, level - 1), end) for level, end in DelayOffsetsFile(paths.config).offsets().items()]
    with suppress(StoreError):
        told.append(((TIMER_TOPIC, TIMER_QUEUE_ID), read_timer_checkpoint(paths.timer_check).last_timer_queue_offset))
    found: dict[tuple[str, int], int] = {}
    for queue, end in told:
        if queue[0] in (SCHEDULE_TOPIC, TIMER_TOPIC):
            found[queue] = max(found.get(queue, 0), end)
    return found
