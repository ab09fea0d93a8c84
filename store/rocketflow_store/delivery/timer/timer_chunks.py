"""Encoding of timer messages that are delivered to their real topics, or rolled into the timer topic."""

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
"""TIMER_ENQUEUE_MS of a message that was taken in after it was due, as RocketMQ writes it."""
_ADDED_PROPERTIES: Final = 128
"""The maximum number of bytes that delivery adds to a message's properties."""


def delivered_chunk(
    rows: TimerRows, records: RecordColumns, late: npt.NDArray[np.bool_], now_ms: int, config: StoreConfig
) -> EncodedChunk:
    """Encode messages for the topics and queues that they were sent to."""
    targets = TargetQueues(*real_places(records.property_segments()))
    enqueue_ms = np.where(late, _LATE_ENQUEUE_MS, _enqueue_ms(rows, config))
    added = {PROPERTY_TIMER_ENQUEUE_MS: _texts(enqueue_ms), PROPERTY_TIMER_DEQUEUE_MS: _now(rows, now_ms)}
    return reput(records, targets, config, set_properties=_without_oversized(records, added))


def rolled_chunk(rows: TimerRows, records: RecordColumns, now_ms: int, config: StoreConfig) -> EncodedChunk:
    """Encode messages for the timer topic, with one more roll."""
    zeros = np.zeros(len(rows), np.int32)
    added = {
        PROPERTY_TIMER_ENQUEUE_MS: _texts(_enqueue_ms(rows, config)),
        PROPERTY_TIMER_DEQUEUE_MS: _now(rows, now_ms),
        PROPERTY_TIMER_ROLL_TIMES: _texts(rows.rolls + 1),
    }
    return reput(records, TargetQueues([TIMER_TOPIC], zeros, zeros), config, set_properties=added)


def _enqueue_ms(rows: TimerRows, config: StoreConfig) -> Ints:
    found: Ints = rows.stored // config.timer_precision_ms * config.timer_precision_ms
    return found


def _now(rows: TimerRows, now_ms: int) -> pa.Array:
    return _texts(np.full(len(rows), now_ms, np.int64))


def _texts(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.string())


def _without_oversized(records: RecordColumns, added: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return `added` with None for the messages whose properties would become too long."""
    sizes = records.properties_ends - records.properties_starts
    fits = sizes + _ADDED_PROPERTIES <= MAX_PROPERTIES_SIZE
    if fits.all():
        return added
    return {name: pc.if_else(pa.array(fits), values, None) for name, values in added.items()}
