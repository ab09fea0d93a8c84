"""Rows of dispatch by queue: the rows of each queue together, cut into runs of consecutive queue offsets."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rocketflow_store.kernel import COMPILED
from rocketflow_store.records.arrow.gather import in_row

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows

    Ints = npt.NDArray[np.int64]


class RowsByQueue(NamedTuple):
    """Rows with a queue: by queue, and in their order within each.

    Run k is those at places [`starts[k]`, `ends[k]`) of `order`. They belong to queue `codes[k]` and claim the queue
    offsets [`firsts[k]`, `stops[k]`). The first record begins at physical offset `begins[k]`, the last at `lasts[k]`.
    """

    order: Ints
    codes: Ints
    starts: Ints
    ends: Ints
    firsts: Ints
    stops: Ints
    begins: Ints
    lasts: Ints

    def runs_of(self, queues: int) -> list[tuple[int, int]]:
        """Return the runs [from, to) of each of so many queues."""
        cuts = np.searchsorted(self.codes, np.arange(queues + 1)).tolist()
        return list(pairwise(cuts))


def rows_by_queue(rows: DispatchRows) -> RowsByQueue:
    """Return the rows by queue; a record may claim several queue offsets."""
    if COMPILED is None or rows.batch_nums is not None:
        return _sorted(rows)
    return by_compiled_queue(rows.queue_of, len(rows.queues), rows.queue_offsets, rows.phy_offsets)


def by_compiled_queue(
    queue_of: npt.NDArray[np.integer], queues: int, queue_offsets: Ints, phy_offsets: Ints
) -> RowsByQueue:
    """Return rows of one queue offset each by queue, from the compiled kernel."""
    assert COMPILED is not None
    count = len(queue_of)
    order, runs = np.empty(count, np.int64), np.empty((count, 6), np.int64)
    columns = np.ascontiguousarray(queue_of, np.int32), in_row(queue_offsets), in_row(phy_offsets)
    queued, found = COMPILED.rows_by_queue(*columns, queues, order, runs)
    codes, starts, ends, firsts, begins, lasts = runs[:found].T.copy()
    return RowsByQueue(order[:queued], codes, starts, ends, firsts, firsts + (ends - starts), begins, lasts)


def _sorted(rows: DispatchRows) -> RowsByQueue:
    order = np.argsort(rows.queue_of, kind="stable")
    order = order[np.searchsorted(rows.queue_of[order], 0) :]
    queue_of, firsts, places = rows.queue_of[order], rows.queue_offsets[order], rows.phy_offsets[order]
    stops = firsts + (1 if rows.batch_nums is None else np.maximum(rows.batch_nums[order], 1))
    other = queue_of[1:] != queue_of[:-1]
    first_run = np.zeros(min(len(order), 1), np.int64)
    starts = np.concatenate([first_run, np.flatnonzero(other | (firsts[1:] != stops[:-1])) + 1])
    ends = np.append(starts[1:], len(order))[: len(starts)]
    codes = queue_of[starts].astype(np.int64)
    return RowsByQueue(order, codes, starts, ends, firsts[starts], stops[ends - 1], places[starts], places[ends - 1])
