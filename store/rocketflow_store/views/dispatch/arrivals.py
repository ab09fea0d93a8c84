"""Arrivals: what a dispatch made visible, one entry for each queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.lmq_properties import LMQ_QUEUE_ID
from rocketflow_store.model.broker_requests import Arrival
from rocketflow_store.views.dispatch.run_rows import RunRows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows

_MAX_TAGS_CODES: Final = 256
"""Maximum number of tags codes that an arrival lists."""
_MAX_SORTED_ROWS: Final = 1 << 16
"""Number of rows from which on different tags codes are not looked for: it would delay the dispatch."""


class _Queue:
    """Arrivals of one queue; `codes` is None if they are not listed."""

    __slots__ = ("codes", "newest_ms", "next_offset")

    def __init__(self) -> None:
        self.next_offset, self.newest_ms = 0, 0
        self.codes: set[int] | None = set()

    def add(self, next_offset: int, codes: Iterable[int] | None, newest_ms: int) -> None:
        self.next_offset = max(self.next_offset, next_offset)
        self.newest_ms = max(self.newest_ms, newest_ms)
        if codes is None:
            self.codes = None
        elif self.codes is not None:
            self.codes.update(codes)


def arrivals_of(parts: Sequence[RunRows | DispatchRows]) -> list[Arrival]:
    """Return the arrivals of dispatched rows, one for each queue that got units."""
    queues: dict[tuple[str, int], _Queue] = {}
    for rows in parts:
        if isinstance(rows, RunRows):
            _add_run(rows, queues)
        else:
            _add_columns(rows, queues)
    return [
        Arrival(
            *(topic, queue_id, one.next_offset),
            None if one.codes is None or len(one.codes) > _MAX_TAGS_CODES else frozenset(one.codes),
            one.newest_ms,
        )
        for (topic, queue_id), one in queues.items()
    ]


def _queue(queues: dict[tuple[str, int], _Queue], topic: str, queue_id: int) -> _Queue:
    found = queues.get((topic, queue_id))
    if found is None:
        found = queues[topic, queue_id] = _Queue()
    return found


def _add_run(rows: RunRows, queues: dict[tuple[str, int], _Queue]) -> None:
    for units in rows.units:
        found = _queue(queues, units.topic, units.queue_id)
        found.add(units.next_offset, units.tags_codes(), rows.store_timestamp)
    for row in rows.side:
        if row.queue_id >= 0:
            next_offset = row.queue_offset + row.batch_num
            _queue(queues, row.topic, row.queue_id).add(next_offset, (row.tags_code,), row.store_timestamp)
        for name, queue_offset in row.lmq:
            _queue(queues, name, LMQ_QUEUE_ID).add(queue_offset + 1, (row.tags_code,), row.store_timestamp)


def _add_columns(rows: DispatchRows, queues: dict[tuple[str, int], _Queue]) -> None:
    with_unit = np.flatnonzero(rows.queue_of >= 0)
    for row, name, queue_offset in rows.lmq:
        place = (int(rows.tags_codes[row]),), int(rows.store_timestamps[row])
        _queue(queues, name, LMQ_QUEUE_ID).add(queue_offset + 1, *place)
    if not len(with_unit):
        return
    order = with_unit[np.argsort(rows.queue_of[with_unit], kind="stable")]
    queue_of = rows.queue_of[order]
    starts = np.concatenate([[0], np.flatnonzero(queue_of[1:] != queue_of[:-1]) + 1])
    stops = np.append(starts[1:], len(order))
    next_offsets = rows.queue_offsets[order] + (1 if rows.batch_nums is None else rows.batch_nums[order])
    highest = np.maximum.reduceat(next_offsets, starts).tolist()
    newest = np.maximum.reduceat(rows.store_timestamps[order], starts).tolist()
    codes = rows.tags_codes[order]
    only_code = bool((codes == codes[0]).all())
    listed = len(order) <= _MAX_SORTED_ROWS
    for at, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        topic, queue_id = rows.queues[int(queue_of[start])]
        of_queue: Iterable[int] | None = None
        if only_code:
            of_queue = (int(codes[0]),)
        elif listed:
            of_queue = np.unique(codes[start:stop]).tolist()
        _queue(queues, topic, queue_id).add(highest[at], of_queue, newest[at])
