"""Property strings of many records at once: one search for separators, then arithmetic.

A segment ends at the next 0x02 or at the end of its row; its first 0x01 separates name and value. Segments without a
name or a value are ignored, later duplicates win: the same rules as `format.properties.decode_properties`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.records.arrow.gather import fixed_width_at, gather, to_string, windows_at, with_validity

if TYPE_CHECKING:
    import numpy.typing as npt


_OFFSETS = pa.py_buffer(np.array([0, 1, 1], dtype=np.int32))
_SEPARATOR, _NOTHING = pa.Array.from_buffers(pa.binary(), 2, [None, _OFFSETS, pa.py_buffer(b"\x02")])
"""Scalars, taken from an array because `pa.scalar` would import pandas."""


@dataclass(frozen=True)
class PropertySegments:
    """All name/value pairs of a batch of property strings, in row order (positions in the values buffer).

    `per_row` is the number of pairs of each row if that is the same for all, else 0.
    """

    values: pa.Buffer
    octets: npt.NDArray[np.uint8]
    row_starts: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    name_starts: npt.NDArray[np.int64]
    name_ends: npt.NDArray[np.int64]
    value_ends: npt.NDArray[np.int64]
    per_row: int = 0
    _known: dict[int, bool] = field(default_factory=dict)

    def column(self, name: str) -> pa.Array:
        """Return the value of property `name` by row, null if a row has none: a string array."""
        wanted = name.encode()
        place = self._constant_place(wanted)
        if place is not None:
            return to_string(
                gather(self.values, self.name_ends[place :: self.per_row] + 1, self.value_ends[place :: self.per_row])
            )
        hits = np.flatnonzero(self.name_ends - self.name_starts == len(wanted))
        if len(hits):
            names = windows_at(self.octets, len(wanted), self.name_starts[hits])
            hits = hits[(names == np.frombuffer(wanted, np.uint8)).all(axis=1)]
        starts = self.row_starts.copy()
        ends = starts.copy()
        valid = np.zeros(len(starts), dtype=bool)
        rows = self.rows[hits]
        starts[rows] = self.name_ends[hits] + 1
        ends[rows] = self.value_ends[hits]
        valid[rows] = True
        return with_validity(to_string(gather(self.values, starts, ends)), valid)

    def _constant_place(self, name: bytes) -> int | None:
        """Return the index of the segment with `name` if it is the same in every row; else None."""
        found = None
        for place, first in enumerate(self._names_of_first_row):
            if len(first) == len(name):
                if not self._constant(place):
                    return None
                if first == name:
                    found = place  # of duplicates the last counts
        return found

    @cached_property
    def _names_of_first_row(self) -> list[bytes]:
        """The names in the first row; empty if any row's names differ in length from these."""
        if self.per_row == 0:
            return []
        lengths = (self.name_ends - self.name_starts).reshape(-1, self.per_row)
        if not bool((lengths == lengths[0]).all()):
            return []
        pairs = zip(self.name_starts[: self.per_row].tolist(), self.name_ends[: self.per_row].tolist(), strict=True)
        view = memoryview(self.values)
        return [bytes(view[start:end]) for start, end in pairs]

    def _constant(self, place: int) -> bool:
        """Return True if every row's segment at `place` has the first row's name; checked once."""
        if place not in self._known:
            named = self._named(self.name_starts[place :: self.per_row], self._names_of_first_row[place])
            self._known[place] = bool(named.all())
        return self._known[place]

    def _named(self, starts: npt.NDArray[np.int64], name: bytes) -> npt.NDArray[np.bool_]:
        if len(name) == 4:
            wanted = np.frombuffer(name, "<u4")[0]
            return fixed_width_at(self.octets, "<u4", starts) == wanted  # type: ignore[no-any-return]
        found: npt.NDArray[np.bool_] = (
            windows_at(self.octets, len(name), starts) == np.frombuffer(name, np.uint8)
        ).all(axis=1)
        return found

    def maps(self) -> pa.Array:
        """Return every row's properties as a map<string, string>; of duplicates in a row only the last is kept."""
        keep = self._last_of_duplicates()
        rows = self.rows[keep]
        names = to_string(gather(self.values, self.name_starts[keep], self.name_ends[keep]))
        values = to_string(gather(self.values, self.name_ends[keep] + 1, self.value_ends[keep]))
        offsets = np.zeros(len(self.row_starts) + 1, dtype=np.int32)
        np.cumsum(np.bincount(rows, minlength=len(self.row_starts)), out=offsets[1:])
        return pa.MapArray.from_arrays(
            pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)]), names, values
        )

    def _last_of_duplicates(self) -> npt.NDArray[np.intp]:
        """Return the indices of the valid segments.

        Names are compared by (row, length, first 8 and last 8 bytes).
        """
        lengths = self.name_ends - self.name_starts
        padded = np.concatenate([self.octets, np.zeros(8, np.uint8)])
        head = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
        mask = (np.uint64(1) << (np.minimum(lengths, 7).astype(np.uint64) * np.uint64(8))) - np.uint64(1)
        mask[lengths >= 8] = np.uint64(0xFFFFFFFFFFFFFFFF)
        first = head[self.name_starts] & mask
        last = head[np.maximum(self.name_starts, self.name_ends - 8)] & mask
        order = np.lexsort((last, first, lengths, self.rows))
        same = (
            (self.rows[order][1:] == self.rows[order][:-1])
            & (lengths[order][1:] == lengths[order][:-1])
            & (first[order][1:] == first[order][:-1])
            & (last[order][1:] == last[order][:-1])
        )
        if not same.any():
            return np.arange(len(self.rows))
        return self._last_of_duplicates_exactly()

    def _last_of_duplicates_exactly(self) -> npt.NDArray[np.intp]:
        view = memoryview(self.values)
        seen: dict[tuple[int, bytes], int] = {}
        for at, (row, start, end) in enumerate(
            zip(self.rows.tolist(), self.name_starts.tolist(), self.name_ends.tolist(), strict=True)
        ):
            seen[row, bytes(view[start:end])] = at
        return np.array(sorted(seen.values()), dtype=np.intp)


def split_properties(array: pa.Array) -> PropertySegments:
    """Find every pair of a binary array (no nulls) of property strings."""
    count = len(array)
    offsets = np.frombuffer(array.buffers()[1], np.int32, count + 1, array.offset * 4).astype(np.int64)
    values = array.buffers()[2] or pa.py_buffer(b"")
    octets = np.frombuffer(values, np.uint8)
    first, last = int(offsets[0]), int(offsets[-1])
    row_starts, row_ends = offsets[:-1], offsets[1:]
    filled_ends = row_ends[row_ends > row_starts]
    if bool((octets[filled_ends - 1] != 2).any()):  # writers before 5.2 omit the last separator
        return split_properties(pc.binary_join_element_wise(array, _SEPARATOR, _NOTHING))
    inside = octets[first:last]
    equals = np.flatnonzero(inside == 1) + first
    ends = np.flatnonzero(inside == 2) + first
    per_row = len(ends) // count if count and len(ends) % count == 0 else 0
    if per_row and bool((ends[per_row - 1 :: per_row] + 1 == row_ends).all()):
        rows = np.repeat(np.arange(count), per_row)
    else:
        per_row, rows = 0, np.searchsorted(row_ends, ends, side="right")
    starts = np.empty_like(ends)
    starts[:1] = first
    starts[1:] = ends[:-1] + 1
    if len(equals) == len(ends) and bool(np.all((starts < equals) & (equals < ends - 1))):
        return PropertySegments(values, octets, row_starts, rows, starts, equals, ends, per_row)
    padded = np.append(equals, len(octets))
    first_equal = padded[np.searchsorted(equals, starts)]
    good = (first_equal > starts) & (first_equal < ends - 1)
    return PropertySegments(values, octets, row_starts, rows[good], starts[good], first_equal[good], ends[good])


def integers(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return (values of decimal texts of up to 18 digits, 0 for other texts; a mask of such texts)."""
    encoded = pc.dictionary_encode(texts.fill_null(""))
    different = encoded.dictionary
    numbers = pc.match_substring_regex(different, r"^[0-9]{1,18}$")
    values = pc.if_else(numbers, different, "0").cast(pa.int64())
    rows = np.asarray(encoded.indices)
    return np.asarray(values).astype(np.int64)[rows], np.asarray(numbers).astype(bool)[rows]
