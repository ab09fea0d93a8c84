"""Units of a queue as its files have them, and the check of all records that one call has read; pure, in loops of C."""

from __future__ import annotations

import struct
from itertools import repeat
from operator import add, eq
from typing import TYPE_CHECKING, Final, NamedTuple

from isal.isal_zlib import crc32

from rocketflow_store.format.consume_queue_unit import UNIT_SIZE, UNIT_STRUCT
from rocketflow_store.format.record import (
    MAGIC_V1,
    MIN_RECORD_SIZE,
    PROPERTY_CRC_ALIKE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
)
from rocketflow_store.kernel import COMPILED

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt


_PLACE: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">iiii4xqqi44xi")
"""Size, magic code, body CRC, queue id, queue offset, physical offset, sysFlag; the body's size after hosts of IPv4."""
MAX_GAP: Final = 16 << 10
"""Records this close to each other are read with one call."""
MAX_SPAN: Final = 1 << 20

_HOSTS_OF_V6: Final = 0x30
"""Flags of sysFlag: the born host and the store host have 16 bytes."""
_DIGITS_SIZE: Final = PROPERTY_CRC_SIZE - len(PROPERTY_CRC_NAME)
_CRC_BITS: Final = 0x7FFFFFFF
_BY_RECORD_CRC: Final = 1
_BY_BODY_CRC: Final = 2
"""The kernel's answers."""


class UnitRows(NamedTuple):
    """Units of a plain queue as its files have them, with their queue offsets, and whether they match for sure.

    `are_sure` None: all do.
    """

    units: bytes
    offsets: range | npt.NDArray[np.int64]
    are_sure: npt.NDArray[np.bool_] | None = None

    def place(self, number: int) -> int:
        """Return the physical offset in a unit."""
        found: int = _PLACE.unpack_from(self.units, number * UNIT_SIZE)[0]
        return found

    def fields(self, begin: int) -> list[tuple[int, int, int, int, int, bool]]:
        """Return units from number `begin` on, each with its queue offset, 1 message, and if it matches for sure."""
        units = UNIT_STRUCT.iter_unpack(self.units[begin * UNIT_SIZE :])
        are_sure = repeat(True) if self.are_sure is None else self.are_sure[begin:].tolist()
        return [(at, *unit, 1, sure) for at, unit, sure in zip(as_list(self.offsets[begin:]), units, are_sure)]

    def first_span(self, most: int, most_bytes: int, room: int) -> tuple[UnitRows, int]:
        """Return the first units that match for sure and whose records one call reads, and the bytes of that call.

        They are at most `most` with `most_bytes` bytes, and end within `room` bytes from the begin of the first.
        """
        if self.are_sure is not None and not self.are_sure.all():
            most = min(most, int(self.are_sure.argmin()))
        count, size = _span(self.units[: max(most, 0) * UNIT_SIZE], most_bytes, room)
        return UnitRows(self.units[: count * UNIT_SIZE], self.offsets[:count]), size


def as_list(offsets: range | npt.NDArray[np.int64]) -> list[int]:
    """Return queue offsets as Python's numbers."""
    return list(offsets) if isinstance(offsets, range) else offsets.tolist()


def _span(units: bytes, most_bytes: int, room: int) -> tuple[int, int]:
    if COMPILED is not None:
        found: tuple[int, int] = COMPILED.first_span(units, most_bytes, room, MAX_GAP)
        return found
    total = begin = end = last = 0
    for count, (place, size, _) in enumerate(UNIT_STRUCT.iter_unpack(units)):
        if count == 0:
            begin, end, last = place, place, place + room
        total += size
        if total > most_bytes or size < MIN_RECORD_SIZE or not end <= place <= end + MAX_GAP or place + size > last:
            return count, end - begin
        end = place + size
    return len(units) // UNIT_SIZE, end - begin


def sound_records(
    raw: bytearray,
    rows: UnitRows,
    queue_id: int,
    topic_part: bytes,
    may_require_crc: Callable[[int, int], bool],
) -> bytes | bytearray | None:
    """Return the records of the units of one span, which `raw` begins with, one after the other.

    None unless all of them are whole, and the messages that their units say. `topic_part` is the length and the name of
    the topic, `may_require_crc` says whether a record at physical offsets [first, last] may need a CRC of itself. None
    for records of other formats and of hosts of IPv6, too: the caller looks at them one by one. `raw` is used up.
    """
    units, offsets, _ = rows
    if COMPILED is not None:
        given = (offsets[0],) if isinstance(offsets, range) else (0, offsets)
        found = COMPILED.sound_records(raw, units, queue_id, topic_part, *given)
        if found == _BY_RECORD_CRC:
            return raw
        last = len(offsets) - 1
        return raw if found == _BY_BODY_CRC and not may_require_crc(rows.place(0), rows.place(last)) else None
    places, sizes, _ = map(list, zip(*UNIT_STRUCT.iter_unpack(units)))
    starts = [place - places[0] for place in places]
    if not _are_sound(raw, starts, (sizes, as_list(offsets), places), queue_id, topic_part, may_require_crc):
        return None
    if len(raw) == sum(sizes):
        return raw
    view = memoryview(raw)
    return b"".join([view[start : start + size] for start, size in zip(starts, sizes)])


def _are_sound(
    raw: bytearray,
    starts: list[int],
    units: tuple[list[int], list[int], list[int]],
    queue_id: int,
    topic_part: bytes,
    may_require_crc: Callable[[int, int], bool],
) -> bool:
    """Return what decides in `sound_records`; `units` are the sizes, queue offsets and physical offsets."""
    heads = map(_HEAD.unpack_from, repeat(raw), starts)
    sizes, magics, body_crcs, queue_ids, offsets, places, sys_flags, body_sizes = map(list, zip(*heads))
    count = len(starts)
    if (
        (sizes, offsets, places) != units
        or magics.count(MAGIC_V1) != count
        or queue_ids.count(queue_id) != count
        or min(body_sizes) < 0
        or any(map(_HOSTS_OF_V6.__and__, set(sys_flags)))
    ):
        return False
    ends = list(map(add, starts, sizes))
    topics_at = [start + _HEAD.size + size for start, size in zip(starts, body_sizes)]
    after = len(topic_part) + 2
    room = [end - at - after for end, at in zip(ends, topics_at)]
    if min(room) < 1 or not all(map(raw.startswith, repeat(topic_part), topics_at)):
        return False
    view = memoryview(raw)
    crcs_at = [end - PROPERTY_CRC_SIZE for end in ends]
    if min(room) >= PROPERTY_CRC_SIZE and all(map(raw.startswith, repeat(PROPERTY_CRC_NAME), crcs_at)):
        crcs = [crc32(view[start:at]) & _CRC_BITS for start, at in zip(starts, crcs_at)]
        digits = b"".join([raw[end - 1 : end - 1 - _DIGITS_SIZE : -1] for end in ends])
        expected: bytes = b"\x02%010d" * count % tuple(crcs)
        return expected == digits
    if any(size >= PROPERTY_CRC_SIZE and is_like_crc(raw[at:end]) for size, at, end in zip(room, crcs_at, ends)):
        return False
    property_sizes = [raw[end - size - 2] << 8 | raw[end - size - 1] for end, size in zip(ends, room)]
    bodies = [crc32(view[end - size : end]) & _CRC_BITS for end, size in zip(topics_at, body_sizes)]
    return bool(
        bodies == body_crcs
        and property_sizes == room
        and all(raw[end - 1] for end in ends)
        and not may_require_crc(places[0], places[-1])
    )


def is_like_crc(tail: bytearray) -> bool:
    """Return True if the last bytes of a record are those of a record CRC, or what damage left of one."""
    alike: int = sum(map(eq, tail, PROPERTY_CRC_NAME)) + (tail[-1] == 2)
    return alike >= PROPERTY_CRC_ALIKE
