"""Where records begin: the chain of sizes, followed in a plain loop; everything else about them is vectorised."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.columnar.gather import fixed_width_at
from rocketflow_store.format.record import (
    BLANK_MAGIC,
    BLANK_SIZE,
    MAGIC_V1,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    SIZE_AND_MAGIC,
)

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_SIZE: Final = struct.Struct(">i")


class ScanStop(enum.Enum):
    """Why a scan ended."""

    LIMIT = "limit"
    """`max_records` or `max_bytes` was reached, or the range's end exactly."""
    BLANK = "blank"
    """A blank record: the file ends here."""
    END = "end"
    """Nothing that claims to be a record: zeros, an unknown magic code, a size that does not fit."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Positions and sizes of a run of records; `end` is the position behind the last one."""

    positions: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    end: int
    stop: ScanStop


def scan_records(buffer: pa.Buffer, position: int, limit: int, max_records: int = 1 << 13) -> Scan:
    """Follow the sizes from `position` (a record boundary) up to `limit`; magic codes are checked, CRCs are not."""
    view = memoryview(buffer)
    unpack = _SIZE.unpack_from
    found: list[int] = []
    append = found.append
    at = position
    last = limit - MIN_RECORD_SIZE
    while at <= last and len(found) < max_records:
        (size,) = unpack(view, at)
        if size < MIN_RECORD_SIZE or at + size > limit:
            break
        append(at)
        at += size
    positions = np.array(found, dtype=np.int64)
    ends = np.append(positions[1:], at) if found else positions
    stopped_full = len(found) == max_records
    if found:
        magic = fixed_width_at(np.frombuffer(buffer, np.uint8), ">i4", positions + 4)
        bad = np.flatnonzero((magic != MAGIC_V1) & (magic != MAGIC_V2))
        if len(bad):
            first = int(bad[0])
            at = int(positions[first])
            positions, ends, stopped_full = positions[:first], ends[:first], False
    if stopped_full or at == limit:
        stop = ScanStop.LIMIT
    elif is_blank(view, at, limit):
        stop = ScanStop.BLANK
    else:
        stop = ScanStop.END
    return Scan(positions, ends - positions, at, stop)


def is_blank(view: memoryview, position: int, limit: int) -> bool:
    """Whether a blank record stands at `position`."""
    if position + BLANK_SIZE > limit:
        return False
    _, magic = SIZE_AND_MAGIC.unpack_from(view, position)
    return bool(magic == BLANK_MAGIC)
