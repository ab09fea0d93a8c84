"""Whether the bytes of records are those that were written.

The body has its CRC. The rest has one where RocketMQ's `enabledAppendPropCRC` added it as the last property: its value
is ten decimal digits, the least significant first, over everything before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.columnar.crc import crc32_column
from rocketflow_store.columnar.gather import gather, windows_at
from rocketflow_store.format.record import PROPERTY_CRC_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.columnar.decode import RecordColumns

    Mask = npt.NDArray[np.bool_]

_NAME: Final = np.frombuffer(b"__CRC32#\x01", np.uint8)
_DIGITS: Final = slice(len(_NAME), PROPERTY_CRC_SIZE - 1)
_ZEROS_OF_LMQ: Final = 20
_WHOLE_DIFFERS: Final = "CRC of the whole record differs"
_ZERO_PROPERTIES: Final = "the properties are zeros"
LACKS_CRC: Final = "lacks the CRC that its writer gives every record"
SIZE_IS_RIGHT: Final = (_WHOLE_DIFFERS, _ZERO_PROPERTIES, LACKS_CRC)
"""Faults that leave no doubt about where the next record begins."""
_POWERS: Final = 10 ** np.arange(PROPERTY_CRC_SIZE - 1 - len(_NAME), dtype=np.int64)


def with_record_crc(records: RecordColumns) -> npt.NDArray[np.bool_]:
    """Which records (sound ones) end with a CRC of themselves."""
    tails = _tails(records)
    there: npt.NDArray[np.bool_] = (tails[:, : len(_NAME)] == _NAME).all(axis=1) & (tails[:, -1] == 2)
    return there & (records.properties_ends - records.properties_starts >= PROPERTY_CRC_SIZE)


def check_record_crc(records: RecordColumns, rows: npt.NDArray[np.intp]) -> dict[int, str]:
    """What is wrong with those of `rows` (records that end with a CRC) whose bytes do not give it."""
    if len(rows) == 0:
        return {}
    digits = _tails(records)[rows][:, _DIGITS].astype(np.int64) - ord("0")
    told = np.where(((digits >= 0) & (digits <= 9)).all(axis=1), digits @ _POWERS, -1)
    starts = records.positions[rows]
    wholes = gather(records.buffer, starts, starts + records.sizes[rows] - PROPERTY_CRC_SIZE)
    actual = crc32_column(wholes) & 0x7FFFFFFF
    return {int(rows[at]): _WHOLE_DIFFERS for at in np.flatnonzero(actual != told).tolist()}


def content_faults(records: RecordColumns, protected: Mask | None = None) -> dict[int, str]:
    """What is wrong with the contents of records whose lengths are right, by row; `protected` is `with_record_crc`."""
    protected = with_record_crc(records) if protected is None else protected
    found = check_record_crc(records, np.flatnonzero(protected))
    if not protected.all():
        actual = crc32_column(records.bodies()) & 0x7FFFFFFF
        for row in np.flatnonzero(actual != records.field(">i4", 8)).tolist():
            found.setdefault(row, "body CRC differs")
        for row, why in _zero_properties(records).items():
            found.setdefault(row, why)
    return found


def whole_by_record_crc(record: bytes) -> bool:
    """Whether a record, of whatever layout, ends with the CRC of what is in front of it."""
    tail = record[-PROPERTY_CRC_SIZE:]
    name = _NAME.tobytes()
    digits = tail[_DIGITS]
    if not tail.startswith(name) or tail[-1] != 2 or not digits.isdigit():
        return False
    return int(digits[::-1]) == crc32(record[:-PROPERTY_CRC_SIZE]) & 0x7FFFFFFF


def _zero_properties(records: RecordColumns) -> dict[int, str]:
    """Records whose properties end in more zeros than any writer leaves there (5.2's LMQ messages: 20)."""
    width = _ZEROS_OF_LMQ + 1
    lengths = records.properties_ends - records.properties_starts
    short = (lengths > 0) & (lengths < width)
    tails = windows_at(records.octets, width, np.maximum(records.properties_ends - width, 0))
    zeros = (lengths >= width) & ~tails.any(axis=1)
    for row in np.flatnonzero(short & ~tails[:, -1].astype(bool)).tolist():
        start, end = int(records.properties_starts[row]), int(records.properties_ends[row])
        zeros[row] = not records.octets[start:end].any()
    return dict.fromkeys(np.flatnonzero(zeros).tolist(), "the properties are zeros")


def _tails(records: RecordColumns) -> npt.NDArray[np.uint8]:
    return windows_at(records.octets, PROPERTY_CRC_SIZE, records.positions + records.sizes - PROPERTY_CRC_SIZE)
