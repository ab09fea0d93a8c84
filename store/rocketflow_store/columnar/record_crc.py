"""The CRC of whole records that RocketMQ's `enabledAppendPropCRC` adds as their last property.

Its value is ten decimal digits, the least significant first, over everything before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.columnar.crc import crc32_column
from rocketflow_store.columnar.gather import gather, windows_at
from rocketflow_store.format.record import PROPERTY_CRC_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

    from rocketflow_store.columnar.decode import RecordColumns

_NAME: Final = np.frombuffer(b"__CRC32#\x01", np.uint8)
_DIGITS: Final = slice(len(_NAME), PROPERTY_CRC_SIZE - 1)
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
    return {int(rows[at]): "CRC of the whole record differs" for at in np.flatnonzero(actual != told).tolist()}


def _tails(records: RecordColumns) -> npt.NDArray[np.uint8]:
    return windows_at(records.octets, PROPERTY_CRC_SIZE, records.positions + records.sizes - PROPERTY_CRC_SIZE)
