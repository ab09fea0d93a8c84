"""Selection of the due messages to deliver: without those that were recalled, rolled, or delivered by a broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.delivery.timer.timer_rows import (
    TimerRows,
    born_timestamps,
    identities,
    recall_names,
    rows_of_units,
)
from rocketflow_store.model.property_names import PROPERTY_REAL_TOPIC, PROPERTY_TIMER_DEL_UNIQKEY
from rocketflow_store.records.arrow.chunking import chunks
from rocketflow_store.records.arrow.unit_types import units_of
from rocketflow_store.records.decoding.decode import RecordColumns

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from rocketflow_store.delivery.timer.timer_rows import TimerReads
    from rocketflow_store.records.decoding.properties import PropertySegments

    Ints = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

_BLOCK_ROWS = 1 << 13
_BLOCK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class DueMessages:
    """Places of messages to deliver, one element a message, in order; `late` ones were taken in after they were due."""

    ticks: Ints
    phy_offsets: Ints
    sizes: Ints
    late: Mask

    @classmethod
    def empty(cls) -> DueMessages:
        """Return an instance without messages."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros(0, bool))

    @classmethod
    def merge(cls, parts: list[DueMessages]) -> DueMessages:
        """Return the messages of all `parts`, in the order of ticks and physical offsets."""
        ticks, phy_offsets, sizes, late = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("ticks", "phy_offsets", "sizes", "late")
        )
        order = np.lexsort((phy_offsets, ticks))
        return cls(ticks[order], phy_offsets[order], sizes[order], late[order])


@dataclass(slots=True)
class Selection:
    """Recalls and deliveries of a broker that exclude due messages, with counts of the excluded ones."""

    precision_ms: int
    broker_delivered: Counter[str]
    """Deliveries of a broker, by message (`identities`), that did not exclude a message yet."""
    deletes: set[tuple[int, str, str]] = field(default_factory=set)
    """(tick, real topic, name) of recalled messages; see `recall_names`. A recall counts for its own topic alone."""
    deleted: int = 0
    already_delivered: int = 0

    def note_deletes(self, reads: TimerReads, rows: TimerRows) -> None:
        """Add the recalls of the delete messages `rows` to `deletes`."""
        for found, records in blocks_of(reads, rows.phy_offsets, rows.sizes, bodies=False):
            segments = records.property_segments()
            topics = segments.column(PROPERTY_REAL_TOPIC).to_pylist()
            names = segments.column(PROPERTY_TIMER_DEL_UNIQKEY).to_pylist()
            self.deletes.update(zip(self._ticks(found.due), topics, names, strict=True))

    def wanted(self, rows: TimerRows, records: RecordColumns, segments: PropertySegments) -> Mask:
        """Return the mask of these (final, due) messages that are to be delivered now."""
        wanted = ~rows.deletes
        if self.deletes:
            recalled = {name for _, _, name in self.deletes}
            topics = segments.column(PROPERTY_REAL_TOPIC)
            for names in recall_names(segments):
                suspects = np.flatnonzero(np.asarray(_among(names, recalled)) & wanted)
                for row in suspects.tolist():
                    tick = self._tick(int(rows.due[row]))
                    if (tick, topics[row].as_py(), names[row].as_py()) in self.deletes:
                        wanted[row] = False
                        self.deleted += 1
        if self.broker_delivered:
            keys = identities(segments, born_timestamps(records), rows.rolls)
            for row in np.flatnonzero(np.asarray(_among(keys, self.broker_delivered.keys())) & wanted).tolist():
                key = keys[row].as_py()
                if self.broker_delivered[key] > 0:
                    self.broker_delivered[key] -= 1
                    if not self.broker_delivered[key]:
                        del self.broker_delivered[key]
                    wanted[row] = False
                    self.already_delivered += 1
        return wanted

    def forget_delivered_before(self, due_ms: int) -> None:
        """Forget a broker's deliveries of messages that were due before `due_ms`."""
        for key in [one for one in self.broker_delivered if int(one.split("\x1f")[3] or 0) < due_ms]:
            del self.broker_delivered[key]

    def _tick(self, due: int) -> int:
        return due // self.precision_ms

    def _ticks(self, due: Ints) -> list[int]:
        return (due // self.precision_ms).tolist()  # type: ignore[no-any-return]


def superseded(reads: TimerReads, rows: TimerRows, copies: Counter[str]) -> Mask:
    """Return the mask of `rows` that were rolled: their copies are handled instead.

    Each match is subtracted from `copies`, the copies found so far by `identities` of their originals.
    """
    found = np.zeros(len(rows), bool)
    if not copies or len(rows) == 0:
        return found
    order = np.argsort(rows.phy_offsets, kind="stable")
    places = rows.phy_offsets[order]
    for block, records in blocks_of(reads, places, rows.sizes[order], bodies=False):
        keys = identities(records.property_segments(), born_timestamps(records), block.rolls)
        for row in np.flatnonzero(np.asarray(_among(keys, copies.keys()))).tolist():
            key = keys[row].as_py()
            if copies[key] > 0:
                copies[key] -= 1
                found[order[np.searchsorted(places, block.phy_offsets[row])]] = True
    return found


def copies_among(rows: TimerRows, records: RecordColumns) -> Counter[str]:
    """Count the originals (by `identities`) of those `rows` that are copies of rolled messages."""
    again = np.flatnonzero(rows.rolls > 0)
    if len(again) == 0:
        return Counter()
    keys = identities(records.property_segments(), born_timestamps(records), rows.rolls - 1)
    return Counter(keys.take(_indices(again)).to_pylist())


def blocks_of(
    reads: TimerReads, phy_offsets: Ints, sizes: Ints, *, bodies: bool
) -> Iterator[tuple[TimerRows, RecordColumns]]:
    """Yield the timer messages at these places, in this order, in blocks of a few MB; skip unreadable messages."""
    for block in chunks(sizes, _BLOCK_BYTES, _BLOCK_ROWS):
        units = units_of(phy_offsets[block], sizes[block])
        places = units["phy_offset"].astype(np.int64)
        if bool((places[1:] > places[:-1]).all()):
            yield from rows_of_units(reads, units, None, bodies=bodies)
            continue
        order = np.argsort(places, kind="stable")
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        parts = list(rows_of_units(reads, units[order], None, bodies=bodies))
        if parts:
            yield _in_order(parts, places)


def _in_order(parts: list[tuple[TimerRows, RecordColumns]], places: Ints) -> tuple[TimerRows, RecordColumns]:
    """Return the messages of `parts` copied into one buffer, in the order of `places`."""
    rows = TimerRows.concatenate([one for one, _ in parts])
    pieces: list[memoryview] = []
    for _, records in parts:
        view = memoryview(records.buffer)
        ends = records.positions + records.sizes
        pieces += [view[a:b] for a, b in zip(records.positions.tolist(), ends.tolist(), strict=True)]
    position_of = {int(offset): number for number, offset in enumerate(rows.phy_offsets.tolist())}
    order = np.array([position_of[one] for one in places.tolist() if one in position_of], np.int64)
    joined = pa.py_buffer(b"".join(pieces[one] for one in order.tolist()))
    sizes = rows.sizes[order]
    return rows.take(order), RecordColumns(joined, np.cumsum(sizes) - sizes, sizes)


def _among(values: pa.Array, wanted: object) -> pa.Array:
    return pc.is_in(values, value_set=pa.array(list(wanted), pa.string()))  # type: ignore[call-overload]


def _indices(rows: npt.NDArray[np.intp]) -> pa.Array:
    return pa.array(rows, pa.int64())
