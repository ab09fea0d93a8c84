"""Find record boundaries: the chain of sizes is followed by the kernel or in a plain loop; the rest is vectorised.

Runs of records of one size are vectorised too. Entries of batches form such a chain as well.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
)
from rocketflow_store.kernel import COMPILED
from rocketflow_store.records.arrow.gather import fixed_width_at

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Ints = npt.NDArray[np.int64]

_SIZE: Final = struct.Struct(">i")
_ALIKE: Final = 16
"""After so many records of one size, further ones are searched for at once,"""
_AT_ONCE: Final = 128
"""so many at first, twice as many each time all of them match."""


class ScanStop(enum.Enum):
    """The reason why a scan ended."""

    LIMIT = "limit"
    """`max_records` or `max_bytes` was reached, or exactly the range's end."""
    BLANK = "blank"
    """A blank record: the file ends here."""
    END = "end"
    """No record header: zeros, an unknown magic code, a size that does not fit."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Positions and sizes of a run of records; `end` is the position after the last one."""

    positions: Ints
    sizes: Ints
    end: int
    stop: ScanStop


def scan_records(buffer: pa.Buffer, position: int, limit: int, max_records: int = 1 << 13) -> Scan:
    """Follow the sizes from `position` (a record boundary) up to `limit`; magic codes are checked, CRCs are not."""
    positions, sizes, at = _follow_records(buffer, position, limit, max_records)
    if len(positions) == max_records or at == limit:
        stop = ScanStop.LIMIT
    elif is_blank(memoryview(buffer), at, limit):
        stop = ScanStop.BLANK
    else:
        stop = ScanStop.END
    return Scan(positions, sizes, at, stop)


def _follow_records(buffer: pa.Buffer, position: int, limit: int, most: int) -> tuple[Ints, Ints, int]:
    """Return the positions and sizes of up to `most` records, and the end of the last one."""
    if COMPILED is not None:
        room = max(min(most, (limit - position) // MIN_RECORD_SIZE), 0)
        columns = np.empty((2, room), np.int64)
        count, at = COMPILED.follow_records(np.frombuffer(buffer, np.uint8), position, limit, *columns)
        positions, sizes = columns[:, :count].copy() if 2 * count < room else columns[:, :count]
        return positions, sizes, at
    positions, at = follow_sizes(buffer, position, limit, MIN_RECORD_SIZE, most)
    ends = np.append(positions[1:], at) if len(positions) else positions
    if len(positions):
        magic = fixed_width_at(np.frombuffer(buffer, np.uint8), ">i4", positions + 4)
        bad = np.flatnonzero((magic != MAGIC_V1) & (magic != MAGIC_V2))
        if len(bad):
            first = int(bad[0])
            at = int(positions[first])
            positions, ends = positions[:first], ends[:first]
    return positions, ends - positions, at


def follow_sizes(
    buffer: pa.Buffer, position: int, limit: int, least_size: int, most: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Return the positions of up to `most` parts that begin with their own size (i32), and the end of the last one.

    The chain ends before a part of less than `least_size` bytes or one that reaches beyond `limit`.
    """
    if COMPILED is not None:
        room = max(min(most, (limit - position) // least_size), 0)
        positions = np.empty(room, np.int64)
        octets = np.frombuffer(buffer, np.uint8)
        count, end = COMPILED.follow_sizes(octets, position, limit, least_size, positions)
        return positions[:count].copy() if 2 * count < room else positions[:count], end
    view = memoryview(buffer)
    unpack = _SIZE.unpack_from
    found: list[int] = []
    append = found.append
    runs: list[npt.NDArray[np.int64]] = []
    at, size_before, alike, at_once = position, 0, 0, _AT_ONCE
    room = most
    last = limit - least_size
    while at <= last and len(found) < room:
        (size,) = unpack(view, at)
        if size < least_size or at + size > limit:
            break
        append(at)
        at += size
        if size != size_before:
            size_before, alike, at_once = size, 0, _AT_ONCE
            continue
        alike += 1
        if alike >= _ALIKE:
            more = _of_one_size(buffer, at, size, min(at_once, room - len(found), (limit - at) // size))
            alike, at_once = (alike, at_once * 2) if len(more) == at_once else (0, _AT_ONCE)
            if len(more):
                runs += [np.array(found, np.int64), more]
                room -= len(found) + len(more)
                found.clear()
                at += size * len(more)
    return np.concatenate([*runs, np.array(found, np.int64)]), at


def _of_one_size(buffer: pa.Buffer, at: int, size: int, count: int) -> npt.NDArray[np.int64]:
    """Return the positions from `at` on of up to `count` records that all have this size."""
    positions = at + size * np.arange(count, dtype=np.int64)
    if count == 0:
        return positions
    other = np.flatnonzero(fixed_width_at(np.frombuffer(buffer, np.uint8), ">i4", positions) != size)
    return positions[: int(other[0])] if len(other) else positions


def is_blank(view: memoryview, position: int, limit: int) -> bool:
    """Return True if there is a blank record at `position`."""
    if position + BLANK_SIZE > limit:
        return False
    _, magic = SIZE_AND_MAGIC.unpack_from(view, position)
    return bool(magic == BLANK_MAGIC)
