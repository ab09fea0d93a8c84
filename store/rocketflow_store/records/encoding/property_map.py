"""A batch's map column of properties: the entries that the store itself reads or writes, and the bytes of all.

A value in a row's other columns replaces that of its map, at the map's position; entries that only the store assigns,
and entries without a value, are dropped.
"""

from __future__ import annotations

import enum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.model.errors import MessageRejectedError
from rocketflow_store.model.property_names import (
    PROPERTY_CRC32,
    PROPERTY_DELAY,
    PROPERTY_INNER_BASE,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET,
    PROPERTY_KEYS,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    PROPERTY_SHARDING_KEY,
    PROPERTY_TAGS,
    PROPERTY_TIMER_DELAY_MS,
    PROPERTY_TIMER_DELAY_SEC,
    PROPERTY_TIMER_DELIVER_MS,
    PROPERTY_TIMER_OUT_MS,
    PROPERTY_UNIQ_KEY,
    TRANSIENT_PROPERTY_PREFIX,
)
from rocketflow_store.model.status import PutMessageStatus
from rocketflow_store.records.arrow.arrays import EMPTY, binary_array
from rocketflow_store.records.arrow.gather import int_array, with_validity

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Rows = npt.NDArray[np.intp]


class EntryKind(enum.IntEnum):
    """The kind of an entry, by the name of its property."""

    PLAIN = 0
    ASSIGNED = 1
    """Only the store writes it."""
    KEYS = 2
    TAGS = 3
    SHARDING_KEY = 4
    UNIQ_KEY = 5
    PLACE = 6
    """The real topic and queue of a message that is first stored under another topic."""
    LATER = 7
    """Requests a delay or a time of delivery."""


PROPERTY_NAME: Final = {
    EntryKind.KEYS: PROPERTY_KEYS,
    EntryKind.TAGS: PROPERTY_TAGS,
    EntryKind.SHARDING_KEY: PROPERTY_SHARDING_KEY,
    EntryKind.UNIQ_KEY: PROPERTY_UNIQ_KEY,
}
"""The name of kinds that have only one."""
_KINDS: Final = {
    **{name: kind for kind, name in PROPERTY_NAME.items()},
    PROPERTY_CRC32: EntryKind.ASSIGNED,
    PROPERTY_INNER_BASE: EntryKind.ASSIGNED,
    PROPERTY_INNER_MULTI_QUEUE_OFFSET: EntryKind.ASSIGNED,
    PROPERTY_REAL_TOPIC: EntryKind.PLACE,
    PROPERTY_REAL_QUEUE_ID: EntryKind.PLACE,
    PROPERTY_TIMER_OUT_MS: EntryKind.PLACE,
    PROPERTY_DELAY: EntryKind.LATER,
    PROPERTY_TIMER_DELAY_SEC: EntryKind.LATER,
    PROPERTY_TIMER_DELAY_MS: EntryKind.LATER,
    PROPERTY_TIMER_DELIVER_MS: EntryKind.LATER,
}
_BY_NAME: Final = {name.encode(): kind for name, kind in _KINDS.items()}
_TRANSIENT: Final = TRANSIENT_PROPERTY_PREFIX.encode()
_EQUALS, _CLOSE = binary_array([b"\x01", b"\x02"])


class PropertyMap:
    """Entries of a map<string, string> column: row i has those of `[offsets[i], offsets[i + 1])`."""

    def __init__(self, column: pa.Array) -> None:
        raw = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, column.offset * 4)
        first, count = int(raw[0]), int(raw[-1] - raw[0])
        self.offsets = raw - first
        self.names, self.values = (child.slice(first, count).cast(pa.binary()) for child in (column.keys, column.items))
        if column.null_count and np.diff(self.offsets)[~np.asarray(column.is_valid())].any():
            raise MessageRejectedError(PutMessageStatus.MESSAGE_ILLEGAL, "a null map with entries")
        names = pc.dictionary_encode(self.names)
        kinds = np.array([_kind(name) for name in names.dictionary.to_pylist()], np.int8)
        self._kinds = kinds[np.asarray(names.indices)] if kinds.any() else None
        """The kind of each entry; None if all are PLAIN."""
        self._values_of: dict[EntryKind, pa.Array | None] = {}

    @cached_property
    def _row_of(self) -> Rows:
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def rows_of(self, *kinds: EntryKind) -> Rows:
        """Return the rows that have an entry of one of these kinds, ascending."""
        return np.unique(self._row_of[self._entries(*kinds)])

    def rows_with_repeats(self) -> Rows:
        """Return the rows in which a name in `PROPERTY_NAME` occurs twice."""
        entries = self._entries(*PROPERTY_NAME)
        if len(entries) < 2 or self._kinds is None:
            return np.zeros(0, np.intp)
        tagged = self._row_of[entries] * len(EntryKind) + self._kinds[entries]
        different, counts = np.unique(tagged, return_counts=True)
        return np.unique(different[counts > 1] // len(EntryKind))

    def values_of(self, kind: EntryKind) -> pa.Array | None:
        """Return the value of each row's entry of a kind, null if it has none; None if no row has one."""
        if kind not in self._values_of:
            self._values_of[kind] = self._gathered(kind)
        return self._values_of[kind]

    def _gathered(self, kind: EntryKind) -> pa.Array | None:
        entries = self._entries(kind)
        if len(entries) == 0:
            return None
        entry_of = np.full(len(self.offsets) - 1, -1, np.int64)
        entry_of[self._row_of[entries]] = entries
        picked = self.values.take(with_validity(int_array(entry_of, pa.int64()), entry_of >= 0))
        return picked.cast(pa.string())

    def encoded(self, instead: Mapping[EntryKind, pa.Array], without: EntryKind | None = None) -> pa.Array:
        """Return `name 0x01 value 0x02` of each row's entries, in their order, except for those of the kind `without`.

        A value in `instead` replaces that of the row's entry of the kind.
        """
        names, values, offsets = self.names, self.values, self.offsets
        kept = np.asarray(values.is_valid()).astype(bool) if values.null_count else np.ones(len(values), bool)
        if self._kinds is not None:
            kept &= self._kinds != EntryKind.ASSIGNED
            if without is not None:
                kept &= self._kinds != without
            values = self._replaced(values, instead)
        if not kept.all():
            rows = int_array(np.flatnonzero(kept), pa.int64())
            names, values = names.take(rows), values.take(rows)
            offsets = np.append(0, np.cumsum(kept))[offsets]
        pairs = pc.binary_join_element_wise(names, _EQUALS, values, _CLOSE, EMPTY)
        ends = np.frombuffer(pairs.buffers()[1], np.int32, len(pairs) + 1, pairs.offset * 4)
        row_ends = np.ascontiguousarray(ends[offsets])
        data = pairs.buffers()[2] or pa.py_buffer(b"")
        return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(row_ends), data])

    def _replaced(self, values: pa.Array, instead: Mapping[EntryKind, pa.Array]) -> pa.Array:
        columns, source, end = [values], np.arange(len(values)), len(values)
        for kind, column in instead.items():
            entries = self._entries(kind)
            entries = entries[np.asarray(column.is_valid()).astype(bool)[self._row_of[entries]]]
            if len(entries):
                source[entries] = end + self._row_of[entries]
                columns.append(column.cast(pa.binary()))
                end += len(column)
        if len(columns) == 1:
            return values
        return pa.concat_arrays(columns).take(int_array(source, pa.int64()))

    def _entries(self, *kinds: EntryKind) -> Rows:
        """Return the indices of the entries of these kinds that have a value."""
        if self._kinds is None:
            return np.zeros(0, np.intp)
        found = np.isin(self._kinds, kinds) if len(kinds) > 1 else self._kinds == kinds[0]
        if self.values.null_count:
            found = found & np.asarray(self.values.is_valid()).astype(bool)
        return np.flatnonzero(found)


def _kind(name: bytes) -> EntryKind:
    return EntryKind.ASSIGNED if name.startswith(_TRANSIENT) else _BY_NAME.get(name, EntryKind.PLAIN)
