"""Timer messages as the records that they are put again as: where they belong, or once more on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.delivery.timer.timer_rows import real_places
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.model.property_names import (
    PROPERTY_TIMER_DEQUEUE_MS,
    PROPERTY_TIMER_ENQUEUE_MS,
    PROPERTY_TIMER_ROLL_TIMES,
)
from rocketflow_store.model.topic_names import TIMER_TOPIC
from rocketflow_store.records.encoding.reput import TargetQueues, reput

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.delivery.timer.timer_rows import TimerRows
    from rocketflow_store.records.decoding.decode import RecordColumns
    from rocketflow_store.records.encoding.encode import EncodedChunk
    from rocketflow_store.settings.store_config import StoreConfig

    Ints = npt.NDArray[np.int64]

_LATE_ENQUEUE_MS: Final = (1 << 63) - 1
"""When a message was taken in that was due before, as RocketMQ says it."""
_ADDED_PROPERTIES: Final = 128
"""Most bytes that delivery adds to a message's properties."""


def delivered_chunk(
    rows: TimerRows, records: RecordColumns, late: npt.NDArray[np.bool_], now_ms: int, config: StoreConfig
) -> EncodedChunk:
    """Messages for the topics and queues that they were sent to."""
    targets = TargetQueues(*real_places(records.property_segments()))
    taken_in = np.where(late, _LATE_ENQUEUE_MS, _taken_in(rows, config))
    added = {PROPERTY_TIMER_ENQUEUE_MS: _texts(taken_in), PROPERTY_TIMER_DEQUEUE_MS: _now(rows, now_ms)}
    return reput(records, targets, config, set_properties=_where_they_fit(records, added))


def rolled_chunk(rows: TimerRows, records: RecordColumns, now_ms: int, config: StoreConfig) -> EncodedChunk:
    """Messages for the timer topic, to be taken in once more."""
    zeros = np.zeros(len(rows), np.int32)
    added = {
        PROPERTY_TIMER_ENQUEUE_MS: _texts(_taken_in(rows, config)),
        PROPERTY_TIMER_DEQUEUE_MS: _now(rows, now_ms),
        PROPERTY_TIMER_ROLL_TIMES: _texts(rows.rolls + 1),
    }
    return reput(records, TargetQueues([TIMER_TOPIC], zeros, zeros), config, set_properties=added)


def _taken_in(rows: TimerRows, config: StoreConfig) -> Ints:
    found: Ints = rows.stored // config.timer_precision_ms * config.timer_precision_ms
    return found


def _now(rows: TimerRows, now_ms: int) -> pa.Array:
    return _texts(np.full(len(rows), now_ms, np.int64))


def _texts(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.string())


def _where_they_fit(records: RecordColumns, added: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Without what would make a message's properties too long."""
    sizes = records.properties_ends - records.properties_starts
    fits = sizes + _ADDED_PROPERTIES <= MAX_PROPERTIES_SIZE
    if fits.all():
        return added
    return {name: pc.if_else(pa.array(fits), values, None) for name, values in added.items()}
