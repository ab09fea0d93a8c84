"""Turn records into ConsumeQueue units and index entries, many at a time.

Dispatch follows the log: its output is a function of the records alone, so a repeated dispatch changes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.java_compat import index_hashes_one_by_one
from rocketflow_store.records.arrow.hashing import TOGETHER_FROM, index_hashes_of
from rocketflow_store.records.arrow.queue_column import QueueColumn
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from rocketflow_store.records.decoding.dispatch_rows import DispatchRows
    from rocketflow_store.views.dispatch.run_rows import RunRows
    from rocketflow_store.views.dispatch.side_queues import SideQueues
    from rocketflow_store.views.index.index_service import IndexService
    from rocketflow_store.views.queues.queue_table import FileQueueTable

    Ints = npt.NDArray[np.int64]

_SIDE_BY_SIDE_FROM: Final = 1 << 16
_ROW_BITS: Final = 32
_ID_BITS: Final = 31
_NUMBERED_TO: Final = 1 << 17
"""Queues have numbers below this, except in a damaged store; the kernel has a row for each."""
_ROWS_A_QUEUE: Final = 256
"""With fewer rows per queue, queues and index compete for the interpreter lock: in sequence they are faster."""


class Dispatcher:
    """Writes units and index entries; `index` is None if indexing is switched off.

    With `tag_entries` TAGS are indexed too, as RocketMQ does since 5.4.0.
    """

    def __init__(
        self,
        queues: FileQueueTable,
        index: IndexService | None,
        side: SideQueues | None = None,
        *,
        tag_entries: bool = False,
    ) -> None:
        self._queues, self._index, self._side, self._tag_entries = queues, index, side, tag_entries

    def dispatch_run(self, rows: RunRows) -> None:
        """Dispatch single records that follow each other in the log: see `dispatch`."""
        for units in rows.units:
            self._queues.add(units.topic, units.queue_id).put_bytes(units.first, units.octets)
        if rows.side and self._side is not None:
            for row in rows.side:
                self._side.put_one(row)
        index = self._index
        if index is None or not rows.keys:
            return
        keys, places, floor = rows.keys, rows.key_offsets, index.next_phy_offset
        if rows.first_phy_offset < floor:  # a failed dispatch is repeated
            kept = [at for at, place in enumerate(places) if place >= floor]
            keys, places = [keys[at] for at in kept], [places[at] for at in kept]
        hashes = _hashes_of(keys) if rows.has_texts else cast("list[int]", keys)
        index.put_run(hashes, places, rows.store_timestamp)

    def dispatch(self, rows: DispatchRows) -> None:
        """Write units at their queue offsets and append index entries. Records that are already indexed are skipped."""
        self._put_units([rows])
        if self._index is not None:
            self._put_keys(rows, self._index)

    def dispatch_all(self, parts: Sequence[DispatchRows]) -> None:
        """Dispatch several parts in order: see `dispatch`. Large parts go to queues and index in parallel."""
        index = self._index
        count = sum(len(rows.phy_offsets) for rows in parts)
        queues = max((len(rows.queues) for rows in parts), default=0)
        if index is None or count < max(_SIDE_BY_SIDE_FROM, queues * _ROWS_A_QUEUE):
            self._put_units(parts)
            for rows in parts if index is not None else ():
                self._put_keys(rows, index)  # type: ignore[arg-type]
            return
        with ThreadPoolExecutor(1, "dispatch") as beside:
            units = beside.submit(self._put_units, parts)
            for rows in parts:
                self._put_keys(rows, index)
            units.result()

    def _put_units(self, parts: Sequence[DispatchRows]) -> None:
        """Write the units of parts that follow each other in the log; consecutive units of a queue in one write."""
        if self._side is not None:
            parts = [self._side.take(rows) for rows in parts]
        queue_of, queues = _numbered([QueueColumn.of(rows.queues) for rows in parts], [rows.queue_of for rows in parts])
        if COMPILED is not None and (not len(queue_of) or int(queue_of.max()) < _NUMBERED_TO):
            runs, octets = _units_by_queue(queue_of, parts)
        else:
            runs, octets = _sorted_units(queue_of, parts)
        for queue, first, start, stop in runs:
            self._queues.add(*queues[queue]).put_bytes(first, octets[start:stop])

    def _put_keys(self, rows: DispatchRows, index: IndexService) -> None:
        entries = rows.entries if self._tag_entries else rows.entries.without_tags()
        entries = entries.where(rows.phy_offsets >= index.next_phy_offset)
        of_row = entries.of_row
        index.put(entries.hashes, rows.phy_offsets[of_row], rows.store_timestamps[of_row])


def _hashes_of(keys: Sequence[str | int]) -> list[int]:
    """Return the hashes of index keys; some may be hashes already."""
    texts = [key for key in keys if isinstance(key, str)]
    hashes = iter((index_hashes_one_by_one if len(texts) < TOGETHER_FROM else index_hashes_of)(texts))
    return [next(hashes) if isinstance(key, str) else key for key in keys]


def _columns(parts: Sequence[DispatchRows]) -> Iterator[npt.NDArray[Any]]:
    """Yield queue offsets, physical offsets, sizes and tags codes of all rows."""
    for name in ("queue_offsets", "phy_offsets", "sizes", "tags_codes"):
        columns = [getattr(rows, name) for rows in parts]
        yield columns[0] if len(columns) == 1 else np.concatenate(columns)


Units: TypeAlias = "tuple[Iterable[tuple[int, int, int, int]], memoryview]"
"""Runs of consecutive units (queue, first queue offset, start and end of their bytes), by queue; and the bytes."""


def _sorted_units(queue_of: Ints, parts: Sequence[DispatchRows]) -> Units:
    """Return the units of rows, sorted by queue."""
    offsets, phy_offsets, sizes, tags_codes = _columns(parts)
    units = np.empty(len(queue_of), UNIT_DTYPE)
    units["phy_offset"], units["msg_size"], units["tags_code"] = phy_offsets, sizes, tags_codes
    order = np.sort((queue_of << _ROW_BITS) | np.arange(len(queue_of))) & ((1 << _ROW_BITS) - 1)
    order = order[int(np.count_nonzero(queue_of < 0)) :]
    queue_of, offsets, units = queue_of[order], offsets[order], units[order]
    # a run: same queue, consecutive queue offsets
    starts_run = (queue_of[1:] != queue_of[:-1]) | (offsets[1:] != offsets[:-1] + 1)
    cuts = np.concatenate([[0], np.flatnonzero(starts_run) + 1]) if len(queue_of) else np.zeros(0, np.int64)
    return zip(
        queue_of[cuts].tolist(),
        offsets[cuts].tolist(),
        (cuts * UNIT_SIZE).tolist(),
        (np.append(cuts[1:], len(queue_of)) * UNIT_SIZE).tolist(),
        strict=False,
    ), memoryview(units.view(np.uint8).data)


def _units_by_queue(queue_of: Ints, parts: Sequence[DispatchRows]) -> Units:
    """Return the units of rows as `_sorted_units` does, from the compiled kernel."""
    assert COMPILED is not None
    count, queues = len(queue_of), int(queue_of.max(initial=-1)) + 1
    runs, units = np.empty((count, 3), np.int64), np.empty(count * UNIT_SIZE, np.uint8)
    columns = (np.ascontiguousarray(one, np.int64) for one in (queue_of, *_columns(parts)))
    found = runs[: COMPILED.units_by_queue(*columns, np.empty((queues, 3), np.int64), runs, units)]
    found = found[np.argsort(found[:, 2])]
    found[:, 2] *= UNIT_SIZE
    end = (count - int(np.count_nonzero(queue_of < 0))) * UNIT_SIZE
    stops = [*found[1:, 2].tolist(), end]
    return [(*run, stop) for run, stop in zip(found.tolist(), stops, strict=False)], units.data


def _numbered(columns: Sequence[QueueColumn], queue_of: Sequence[npt.NDArray[np.int32]]) -> tuple[Ints, QueueNames]:
    """Return all rows' queues as numbers that are the same in every part (-1 stays), and the queues by number."""
    numbers: dict[str, int] = {}
    own = [np.array([numbers.setdefault(topic, len(numbers)) for topic in one.topics], np.int64) for one in columns]
    if len(numbers) == 1:
        names = QueueNames(list(numbers), None)
        found = [one.ids for one in columns]
    else:
        tags = [(topic_of[one.topic_of] << _ID_BITS) | one.ids for topic_of, one in zip(own, columns, strict=True)]
        different, inverse = np.unique(np.concatenate(tags), return_inverse=True)
        names = QueueNames(list(numbers), different)
        found = np.split(inverse, np.cumsum([len(one) for one in tags])[:-1])
    return np.concatenate(
        [np.append(mine, -1)[codes] for mine, codes in zip(found, queue_of, strict=True)]  # the last stays -1
    ), names


class QueueNames:
    """Queues by number: the queue id if there is only one topic, else the index of its tag."""

    def __init__(self, topics: Sequence[str], tags: Ints | None) -> None:
        self._topics, self._tags = topics, tags

    def __getitem__(self, number: int) -> tuple[str, int]:
        if self._tags is None:
            return self._topics[0], number
        tag = int(self._tags[number])
        return self._topics[tag >> _ID_BITS], tag & ((1 << _ID_BITS) - 1)
