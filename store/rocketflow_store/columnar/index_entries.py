"""Index entries of many records at once: one for the UNIQ_KEY, then one for each key of KEYS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.columnar.gather import int_array
from rocketflow_store.columnar.hashing import index_hashes, string_hashes
from rocketflow_store.java_compat import string_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """Entry k is of row `of_row[k]` (they ascend) and has the key hash `hashes[k]`."""

    hashes: npt.NDArray[np.int32]
    of_row: npt.NDArray[np.intp]

    def where(self, rows: npt.NDArray[np.bool_]) -> IndexEntries:
        """The entries of some rows (a mask)."""
        kept = rows[self.of_row]
        return self if kept.all() else IndexEntries(self.hashes[kept], self.of_row[kept])

    def as_lists(self, count: int) -> pa.ListArray:
        """The hashes of each of `count` rows."""
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(self.of_row, minlength=count), out=offsets[1:])
        return pa.ListArray.from_arrays(int_array(offsets, pa.int32()), int_array(self.hashes, pa.int32()))

    @classmethod
    def of_lists(cls, lists: pa.ListArray) -> IndexEntries:
        """What `as_lists` made."""
        count = len(lists)
        offsets = np.frombuffer(lists.buffers()[1], np.int32, count + 1, lists.offset * 4)
        hashes = np.asarray(lists.values)[offsets[0] : offsets[-1]]
        return cls(hashes, np.repeat(np.arange(count), np.diff(offsets)))


def index_entries(
    topics: Sequence[str], topic_of: npt.NDArray[np.int32], uniq_keys: pa.Array, keys: pa.Array
) -> IndexEntries:
    """Entries in the order RocketMQ puts them; `keys` holds blank-separated ones, null (or empty) is none."""
    count = len(topic_of)
    prefixes = np.array([string_hash(f"{topic}#") & 0xFFFFFFFF for topic in topics], np.uint32)[topic_of]
    uniq_hashes, uniq_lengths = string_hashes(uniq_keys)
    uniq_rows = np.arange(count)
    present = uniq_lengths > 0
    uniq = index_hashes(prefixes, uniq_hashes, uniq_lengths)
    if not present.all():
        uniq, uniq_rows = uniq[present], uniq_rows[present]
    key_values, key_rows = split_keys(keys)
    if len(key_rows) == 0:
        return IndexEntries(uniq, uniq_rows)
    key_hashes, key_lengths = string_hashes(key_values)
    keyed = index_hashes(prefixes[key_rows], key_hashes, key_lengths)
    if len(uniq) == len(keyed) == count and bool((key_rows == uniq_rows).all()):
        return IndexEntries(np.stack([uniq, keyed], axis=1).ravel(), np.repeat(uniq_rows, 2))
    merged_rows = np.concatenate([uniq_rows, key_rows])
    order = np.argsort(merged_rows, kind="stable")
    return IndexEntries(np.concatenate([uniq, keyed])[order], merged_rows[order])


def split_keys(keys: pa.Array) -> tuple[pa.Array, npt.NDArray[np.intp]]:
    """Single keys of a column of blank-separated ones, and the row each comes from; empty ones are left out."""
    count = len(keys)
    if keys.null_count == count:
        return keys.slice(0, 0), np.zeros(0, np.intp)
    offsets = np.frombuffer(keys.buffers()[1], np.int32, count + 1, keys.offset * 4)
    octets = np.frombuffer(keys.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    rows = np.arange(count)
    values = keys
    if bool((octets == 0x20).any()):
        lists = pc.split_pattern(keys, " ")
        rows = np.frombuffer(pc.list_parent_indices(lists).buffers()[1], np.int64).copy()
        values = pc.list_flatten(lists)
        rows = rows[: len(values)]
    filled = np.diff(np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)) > 0
    if filled.all():
        return values, rows
    kept = np.flatnonzero(filled)
    return values.take(int_array(kept, pa.int64())), rows[kept]
