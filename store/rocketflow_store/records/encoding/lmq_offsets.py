"""LMQs (light message queues) of many records: space for queue offsets, filled in when the records get their place.

A record's size must be known before its offsets. So INNER_MULTI_QUEUE_OFFSET has 18 digits for each of them, with
leading zeros: RocketMQ parses them as numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from rocketflow_store.format.lmq_properties import gets_lmqs
from rocketflow_store.model.errors import CorruptRecordError
from rocketflow_store.model.property_names import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_INNER_MULTI_QUEUE_OFFSET
from rocketflow_store.model.topic_names import LMQ_PREFIX
from rocketflow_store.records.arrow.arrays import binary_array, join
from rocketflow_store.records.decoding.properties import split_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

DIGITS: Final = 18
_HEAD: Final = f"{PROPERTY_INNER_MULTI_QUEUE_OFFSET}\x01"


@dataclass(frozen=True, slots=True)
class LmqOffsets:
    """One element for every LMQ that a record is in, by ascending `rows` of a chunk.

    The digits of its offset are at position `at` of the record.
    """

    rows: Ints
    names: list[str]
    at: Ints

    def as_lists(self, count: int) -> tuple[pa.Array, pa.Array]:
        """Return (names, positions) as a list for every one of `count` records."""
        ends = pa.array(np.append(0, np.cumsum(np.bincount(self.rows, minlength=count))), pa.int32())
        return pa.ListArray.from_arrays(ends, pa.array(self.names, pa.string())), pa.ListArray.from_arrays(
            ends, pa.array(self.at, pa.int64())
        )

    @classmethod
    def of_lists(cls, names: pa.Array, positions: pa.Array, sizes: Ints, source: str) -> LmqOffsets:
        """Parse the result of `as_lists`; raise CorruptRecordError if a position is outside its record."""
        counts = np.diff(np.asarray(names.offsets)).astype(np.int64)
        each, at = names.flatten(), positions.flatten()
        rows = np.repeat(np.arange(len(counts)), counts)
        if not each.null_count and not at.null_count and len(each) == len(at) == len(rows):
            found = cls(rows, each.to_pylist(), np.asarray(at).astype(np.int64))
            if ((found.at >= 0) & (found.at <= sizes[rows] - DIGITS)).all():
                return found
        raise CorruptRecordError(source, 0, "the LMQ positions of the staged part are outside its properties")

    def in_records(self, ends: Ints) -> LmqOffsets:
        """Return a copy with `at` relative to the records, whose properties end at `ends`, not to these ends."""
        return replace(self, at=ends[self.rows] + self.at)

    def fill_in(self, octets: npt.NDArray[np.uint8], starts: Ints, offsets: Ints) -> None:
        """Write the offsets into the records that begin at `starts`."""
        if len(self.rows) == 0:
            return
        text = b"".join(b"%018d" % offset for offset in offsets.tolist())
        places = (starts[self.rows] + self.at)[:, None] + np.arange(DIGITS)
        octets[places] = np.frombuffer(text, np.uint8).reshape(-1, DIGITS)


def with_room(
    properties: pa.Array, topics: Sequence[str], topic_codes: npt.NDArray[np.int32]
) -> tuple[pa.Array, LmqOffsets]:
    """Return (property strings with space for the offsets in LMQs, the LMQs).

    `at` counts from the end of the properties and is negative.
    """
    names = split_properties(properties).column(PROPERTY_INNER_MULTI_DISPATCH)
    takes = np.array([gets_lmqs(topic) for topic in topics], bool)[topic_codes]
    rows = np.flatnonzero(takes & np.asarray(names.is_valid()))
    asked = [(row, names[row].as_py().split(",")) for row in rows.tolist()]
    named = [(row, each) for row, each in asked if any(_is_lmq(one) for one in each)]
    if not named:
        return properties, LmqOffsets(np.zeros(0, np.int64), [], np.zeros(0, np.int64))
    segments = [b""] * len(properties)
    found_rows: list[int] = []
    found_names: list[str] = []
    at: list[int] = []
    for row, each in named:
        segment, places = offsets_of(each)
        own: bytes = properties[row].as_py()
        segments[row] = (b"" if own.endswith(b"\x02") else b"\x02") + segment
        for one, place in places:
            found_rows.append(row)
            found_names.append(one)
            at.append(place)
    lmqs = LmqOffsets(np.array(found_rows, np.int64), found_names, np.array(at, np.int64))
    return join(properties, binary_array(segments)), lmqs


def offsets_of(names: Sequence[str]) -> tuple[bytes, list[tuple[str, int]]]:
    """Return (the property with space for offsets, the LMQs among the names), each with its digits' place.

    Places count from the end of the properties and are negative.
    """
    value = ",".join("0" * DIGITS if _is_lmq(one) else "" for one in names)
    places: list[tuple[str, int]] = []
    distance = len(value) + 1
    for one in names:
        if _is_lmq(one):
            places.append((one, -distance))
            distance -= DIGITS
        distance -= 1
    return f"{_HEAD}{value}\x02".encode(), places


def room_needed(names: str) -> int:
    """Return the most bytes that `with_room` adds for a value of INNER_MULTI_DISPATCH."""
    return len(_HEAD) + 2 + (DIGITS + 1) * (names.count(",") + 1)


def _is_lmq(name: str) -> bool:
    return name.startswith(LMQ_PREFIX)
