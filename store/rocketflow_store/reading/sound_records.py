"""Units of a queue as columns, and the check of all records that one call has read; pure, and in loops of C."""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import accumulate, repeat
from operator import add, eq, sub
from typing import TYPE_CHECKING, Final, NamedTuple

from isal.isal_zlib import crc32

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

    from rocketflow_store.views.queues.unit_files import Units

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


class UnitColumns(NamedTuple):
    """Units of a plain queue, by column: their queue offsets, the fields of `Units`, and whether they match for sure.

    `are_sure` is empty if all do.
    """

    offsets: list[int]
    phy_offsets: list[int]
    sizes: list[int]
    codes: list[int]
    are_sure: list[bool]

    @classmethod
    def of(cls, units: Units, offsets: list[int], are_sure: list[bool] | None = None) -> UnitColumns:
        """Return the columns of units with queue offsets."""
        return cls(
            offsets,
            units["phy_offset"].tolist(),
            units["msg_size"].tolist(),
            units["tags_code"].tolist(),
            are_sure or [],
        )

    def rows(self, begin: int) -> list[tuple[int, int, int, int, int, bool]]:
        """Return units from number `begin` on: the columns, and 1, the messages of each, before the last."""
        columns = [one[begin:] for one in self[:4]]
        return list(zip(*columns, repeat(1), self.are_sure[begin:] or repeat(True)))

    def first_span(self, most: int, most_bytes: int, file_end: int) -> UnitColumns:
        """Return the first units that match for sure, and whose records one call reads.

        They are at most `most` with `most_bytes` bytes, and lie before `file_end`.
        """
        count = min(len(self.offsets), most, bisect_right(list(accumulate(self.sizes)), most_bytes))
        if False in self.are_sure:
            count = min(count, self.are_sure.index(False))
        first = self if count == len(self.offsets) else self._first(count)
        if not first.offsets:
            return first
        ends = list(map(add, first.phy_offsets, first.sizes))
        gaps = list(map(sub, first.phy_offsets[1:], ends))
        is_one = (
            min(first.sizes) >= MIN_RECORD_SIZE
            and min(gaps, default=0) >= 0
            and max(gaps, default=0) <= MAX_GAP
            and ends[-1] <= min(file_end, first.phy_offsets[0] + MAX_SPAN)
        )
        return first if is_one else self._first(0)

    def _first(self, count: int) -> UnitColumns:
        offsets, phy_offsets, sizes, codes, are_sure = self
        return UnitColumns(offsets[:count], phy_offsets[:count], sizes[:count], codes[:count], are_sure[:count])


def are_sound(
    raw: bytearray,
    starts: list[int],
    units: UnitColumns,
    queue_id: int,
    topic_part: bytes,
    requires_record_crc: Callable[[int], bool],
) -> bool:
    """Return True if the records at `starts` of `raw` are whole, and the messages that their units say.

    `topic_part` is the length and the name of the topic, `requires_record_crc` says whether the record at a physical
    offset has to have a CRC of itself. Records of other formats, and of hosts of IPv6, are not sound here: the caller
    looks at them one by one.
    """
    if COMPILED is not None:
        found = COMPILED.sound_records(raw, starts, units.sizes, units.offsets, units.phy_offsets, queue_id, topic_part)
        return found == _BY_RECORD_CRC or (
            found == _BY_BODY_CRC and not any(map(requires_record_crc, units.phy_offsets))
        )
    heads = map(_HEAD.unpack_from, repeat(raw), starts)
    sizes, magics, body_crcs, queue_ids, offsets, places, sys_flags, body_sizes = map(list, zip(*heads))
    count = len(starts)
    if (
        sizes != units.sizes
        or offsets != units.offsets
        or places != units.phy_offsets
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
        and not any(map(requires_record_crc, places))
    )


def is_like_crc(tail: bytearray) -> bool:
    """Return True if the last bytes of a record are those of a record CRC, or what damage left of one."""
    alike: int = sum(map(eq, tail, PROPERTY_CRC_NAME)) + (tail[-1] == 2)
    return alike >= PROPERTY_CRC_ALIKE
