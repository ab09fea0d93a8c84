"""Check that the bytes of records are those that were written.

The body has a CRC. The rest has one if RocketMQ's `enabledAppendPropCRC` appended it as the last property: its value is
ten decimal digits, the least significant first, over everything before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.record import (
    BODY_DIFFERS,
    PROPERTY_CRC_ALIKE,
    PROPERTY_CRC_NAME,
    PROPERTY_CRC_SIZE,
    WHOLE_DIFFERS,
    ZERO_PROPERTIES,
    ZEROS_OF_LMQ,
)
from rocketflow_store.kernel import COMPILED
from rocketflow_store.records.arrow.crc import crc32_slices
from rocketflow_store.records.arrow.gather import in_row, windows_at

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from rocketflow_store.records.decoding.decode import RecordColumns

    Mask = npt.NDArray[np.bool_]

_TAIL: Final = np.dtype([("name", "<u8"), ("is", "u1"), ("digits", "u1", 10), ("end", "u1")])
_NAME: Final = int.from_bytes(PROPERTY_CRC_NAME[:8], "little")
assert _TAIL.itemsize == PROPERTY_CRC_SIZE
LACKS_CRC: Final = "lacks the CRC that its writer gives every record"
SIZE_IS_RIGHT: Final = (WHOLE_DIFFERS, ZERO_PROPERTIES, LACKS_CRC)
"""Faults that leave no doubt about the position of the next record."""
_NAME_OCTETS: Final = np.frombuffer(PROPERTY_CRC_NAME, np.uint8)
_ONES: Final = np.ones(len(PROPERTY_CRC_NAME), np.uint8)
_POWERS: Final = 10.0 ** np.arange(10)


def with_record_crc(records: RecordColumns) -> npt.NDArray[np.bool_]:
    """Return a mask of the (sound) records that end with a CRC of themselves, or with a damaged one."""
    return _protected(records, _tails(records))


def rows_like_crc(properties: pa.Array) -> npt.NDArray[np.intp]:
    """Return the rows of property strings whose ends `ends_like_crc` (a value without nulls each)."""
    count = len(properties)
    ends = np.frombuffer(properties.buffers()[1], np.int32, count + 1, properties.offset * 4).astype(np.int64)
    long = np.flatnonzero(np.diff(ends) >= PROPERTY_CRC_SIZE)
    if len(long) == 0:
        return long
    octets = np.frombuffer(properties.buffers()[2], np.uint8)
    return long[_like_crc(windows_at(octets, PROPERTY_CRC_SIZE, ends[1:][long] - PROPERTY_CRC_SIZE))]


def _like_crc(tails: npt.NDArray[np.uint8]) -> Mask:
    """Return a mask of the last bytes of records that are those of a record's CRC, or what damage left of one."""
    same = tails[:, : len(PROPERTY_CRC_NAME)] == _NAME_OCTETS
    found: Mask = same.view(np.uint8) @ _ONES + (tails[:, -1] == 2) >= PROPERTY_CRC_ALIKE  # faster than a sum
    return found


def _protected(records: RecordColumns, tails: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    there = _is_crc(tails)
    if not there.all():
        octets = np.ascontiguousarray(tails).view(np.uint8).reshape(-1, PROPERTY_CRC_SIZE)
        there = _like_crc(octets)
    return there & (records.properties_ends - records.properties_starts >= PROPERTY_CRC_SIZE)


def _check_record_crc(
    records: RecordColumns, tails: npt.NDArray[np.void], rows: npt.NDArray[np.intp]
) -> dict[int, str]:
    """Return the faults of those `rows` (records that end with a CRC) whose bytes do not match it."""
    if len(rows) == 0:
        return {}
    every = len(rows) == records.count
    starts, sizes = (records.positions, records.sizes) if every else (records.positions[rows], records.sizes[rows])
    digits = (tails["digits"] if every else tails["digits"][rows]) - np.uint8(ord("0"))
    actual = crc32_slices(records.buffer, starts, starts + sizes - PROPERTY_CRC_SIZE) & 0x7FFFFFFF
    differs = digits.astype(np.float64) @ _POWERS != actual  # ten digits are exact as a double
    differs |= ~_is_crc(tails if every else tails[rows])
    if int(digits.max()) > 9:
        differs |= (digits > 9).any(axis=1)
    return {int(rows[at]): WHOLE_DIFFERS for at in np.flatnonzero(differs).tolist()}


def content_faults(records: RecordColumns) -> dict[int, str]:
    """Return the faults in the contents of records whose lengths are right, by row."""
    return judge_contents(records)[0]


def judge_contents(records: RecordColumns, *, bodies: bool = True) -> tuple[dict[int, str], Mask]:
    """Return `content_faults`, and a mask of the records that end with a CRC of themselves (`with_record_crc`).

    A record with a CRC of itself is judged by that alone, in one pass; for other records the body's CRC is compared if
    `bodies` is set.
    """
    if COMPILED is not None and records.count:
        flags = np.empty(records.count, np.bool_)
        place = records.octets, in_row(records.positions), in_row(records.sizes)
        sound = COMPILED.judge_records(*place, bodies, flags.view(np.uint8))
        if sound == records.count:
            return {}, flags
    tails = _tails(records)
    protected = _protected(records, tails)
    found = _check_record_crc(records, tails, np.flatnonzero(protected))
    if not protected.all():
        others = np.flatnonzero(~protected)
        if bodies:
            actual = crc32_slices(records.buffer, records.body_starts[others], records.body_ends[others]) & 0x7FFFFFFF
            for at in np.flatnonzero(actual != records.field(">i4", 8)[others]).tolist():
                found[int(others[at])] = BODY_DIFFERS
        for row, why in zero_properties(records).items():
            found.setdefault(row, why)
    return found, protected


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The result of judging records that follow each other.

    Those of `damaged` (row: why) have the right place and size, which the next record or their own CRC confirms. At row
    `stop` the position of the next record is unknown, for the reason `why`; `stop` is the count if all are known.
    """

    sound: RecordColumns
    damaged: dict[int, str]
    stop: int
    why: str
    without_crc: int
    """The number of sound records that do not end with a CRC of themselves."""


def judge_run(records: RecordColumns, file_from_offset: int, with_crc: tuple[int, int]) -> JudgedRun:
    """Judge a run of records of a file that begins at `file_from_offset`.

    Records in `with_crc`, physical offsets `[from, to)`, must end with a CRC of themselves. Contents are checked up to
    the first record whose place is wrong.
    """
    records.check_own_offset(file_from_offset)
    placed = records.before_faults()
    faults, protected = judge_contents(placed)
    offsets = placed.positions + file_from_offset
    note_lacking(faults, ~protected & (offsets >= with_crc[0]) & (offsets < with_crc[1]))
    stop, why = placed.count, records.faults.get(placed.count, "")
    for row in sorted(faults):
        if faults[row] not in SIZE_IS_RIGHT and (row + 1 in faults or row + 1 >= placed.count):
            stop, why = row, faults[row]
            break
    damaged = {row: faults[row] for row in sorted(faults) if row < stop}
    fine = np.ones(stop, bool)
    fine[list(damaged)] = False
    sound = records if stop == records.count and not damaged else records.keep(np.flatnonzero(fine))
    return JudgedRun(sound, damaged, stop, why, int(np.count_nonzero(fine & ~protected[:stop])))


def note_lacking(faults: dict[int, str], lacking: Mask) -> None:
    """Add a fault to records that lack their required CRC and have no other fault."""
    for row in np.flatnonzero(lacking).tolist():
        faults.setdefault(row, LACKS_CRC)


def zero_properties(records: RecordColumns) -> dict[int, str]:
    """Return the faults of records whose properties end in more zeros than any writer leaves (5.2: 20 for LMQs)."""
    lengths = records.properties_ends - records.properties_starts
    last = records.octets[np.maximum(records.properties_ends - 1, 0)]
    if not ((last == 0) & (lengths > 0)).any():
        return {}
    width = ZEROS_OF_LMQ + 1
    short = (lengths > 0) & (lengths < width)
    tails = windows_at(records.octets, width, np.maximum(records.properties_ends - width, 0))
    zeros = (lengths >= width) & ~tails.any(axis=1)
    for row in np.flatnonzero(short & ~tails[:, -1].astype(bool)).tolist():
        start, end = int(records.properties_starts[row]), int(records.properties_ends[row])
        zeros[row] = not records.octets[start:end].any()
    return dict.fromkeys(np.flatnonzero(zeros).tolist(), ZERO_PROPERTIES)


def _is_crc(tails: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    there: npt.NDArray[np.bool_] = (tails["name"] == _NAME) & (tails["is"] == 1) & (tails["end"] == 2)
    return there


def _tails(records: RecordColumns) -> npt.NDArray[np.void]:
    at = records.positions + records.sizes - PROPERTY_CRC_SIZE
    return windows_at(records.octets, PROPERTY_CRC_SIZE, at).view(_TAIL)[:, 0]
