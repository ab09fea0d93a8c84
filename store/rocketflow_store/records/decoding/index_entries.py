"""Index entries of many records at once: one for the UNIQ_KEY, one for each key of KEYS, one for the TAGS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.model.java_compat import TAG_KEY_PREFIX, string_hash
from rocketflow_store.records.arrow.gather import int_array
from rocketflow_store.records.arrow.hashing import index_hashes, string_hashes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


Hashes: TypeAlias = "tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]"
"""Java hashes of strings, and their lengths in UTF-16 units: see `string_hashes`."""


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """Entry k belongs to row `of_row[k]` (ascending) and has the key hash `hashes[k]`.

    `of_tag[k]` marks the entry of the row's TAGS, which RocketMQ writes since 5.4.0: the last one of its row.
    """

    hashes: npt.NDArray[np.int32]
    of_row: npt.NDArray[np.intp]
    of_tag: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> Self:
        return cls(np.zeros(0, np.int32), np.zeros(0, np.intp), np.zeros(0, bool))

    def where(self, rows: npt.NDArray[np.bool_]) -> Self:
        """Return the entries of some rows (a mask)."""
        return self._kept(rows[self.of_row])

    def without_tags(self) -> Self:
        """Return the entries that RocketMQ before 5.4.0 writes."""
        return self._kept(~self.of_tag)

    def _kept(self, kept: npt.NDArray[np.bool_]) -> Self:
        return self if kept.all() else type(self)(self.hashes[kept], self.of_row[kept], self.of_tag[kept])

    def copied(self) -> Self:
        """Return entries whose hashes have memory of their own."""
        return type(self)(self.hashes.copy(), self.of_row, self.of_tag)

    def as_lists(self, count: int) -> pa.ListArray:
        """Return the hashes of each of `count` rows."""
        offsets = np.zeros(count + 1, np.int32)
        np.cumsum(np.bincount(self.of_row, minlength=count), out=offsets[1:])
        return pa.ListArray.from_arrays(int_array(offsets, pa.int32()), int_array(self.hashes, pa.int32()))

    def tagged_rows(self, count: int) -> npt.NDArray[np.bool_]:
        """Return a mask of `count` rows: those with an entry for their TAGS."""
        tagged = np.zeros(count, bool)
        tagged[self.of_row[self.of_tag]] = True
        return tagged

    @classmethod
    def of_lists(cls, lists: pa.ListArray, tagged: npt.NDArray[np.bool_]) -> Self:
        """Return the entries from the results of `as_lists` and `tagged_rows`."""
        count = len(lists)
        offsets = np.frombuffer(lists.buffers()[1], np.int32, count + 1, lists.offset * 4)
        hashes = np.asarray(lists.values)[offsets[0] : offsets[-1]]
        of_tag = np.zeros(len(hashes), bool)
        of_tag[offsets[1:][tagged] - offsets[0] - 1] = True
        return cls(hashes, np.repeat(np.arange(count), np.diff(offsets)), of_tag)


def index_entries(
    topics: Sequence[str], topic_of: npt.NDArray[np.int32], uniq_keys: pa.Array, keys: pa.Array, tags: Hashes
) -> IndexEntries:
    """Return the entries of records in the order in which RocketMQ 5.4 writes them: UNIQ_KEY, KEYS, TAGS.

    `keys` holds blank-separated keys, null (or empty) for none. `tags` are the hashes of the TAGS; empty TAGS have no
    entry.
    """
    count = len(topic_of)
    every_row = np.arange(count)
    prefixes = _prefixes(topics, "")[topic_of]
    uniq = _group(prefixes, every_row, string_hashes(uniq_keys))
    key_values, key_rows = split_keys(keys)
    groups = [(*uniq, False), (*_group(prefixes[key_rows], key_rows, string_hashes(key_values)), False)]
    if tags[1].any():
        groups.append((*_group(_prefixes(topics, TAG_KEY_PREFIX)[topic_of], every_row, tags), True))
    filled = [one for one in groups if len(one[1])]
    if not filled:
        return IndexEntries.none()
    if len(filled) == 1:
        hashes, rows, of_tag = filled[0]
        return IndexEntries(hashes, rows, np.full(len(rows), of_tag))
    flags = [np.full(len(rows), of_tag) for _, rows, of_tag in filled]
    if all(len(rows) == count and bool((rows == every_row).all()) for _, rows, _ in filled):
        hashes = np.stack([one for one, _, _ in filled], axis=1).ravel()
        return IndexEntries(hashes, np.repeat(every_row, len(filled)), np.stack(flags, axis=1).ravel())
    merged_rows = np.concatenate([rows for _, rows, _ in filled])
    order = np.argsort(merged_rows, kind="stable")
    hashes = np.concatenate([one for one, _, _ in filled])[order]
    return IndexEntries(hashes, merged_rows[order], np.concatenate(flags)[order])


def _prefixes(topics: Sequence[str], more: str) -> npt.NDArray[np.uint32]:
    return np.array([string_hash(f"{topic}#{more}") & 0xFFFFFFFF for topic in topics], np.uint32)


def _group(
    prefixes: npt.NDArray[np.uint32], rows: npt.NDArray[np.intp], keys: Hashes
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.intp]]:
    """Return (index hash, row) of the keys that are not empty."""
    hashes, lengths = keys
    found, present = index_hashes(prefixes, hashes, lengths), lengths > 0
    return (found, rows) if present.all() else (found[present], rows[present])


def split_keys(keys: pa.Array) -> tuple[pa.Array, npt.NDArray[np.intp]]:
    """Return the single keys of a column of blank-separated ones, and the row of each; empty keys are skipped."""
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
