"""NumPy's types of the units and slots that `format` describes: many of them at once, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store.format.batch_unit import BATCH_UNIT_SIZE
from rocketflow_store.format.consume_queue_unit import UNIT_SIZE
from rocketflow_store.format.index_layout import ENTRY_SIZE
from rocketflow_store.format.timer_layout import SLOT_SIZE, TIMER_UNIT_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

UNIT_DTYPE: Final = np.dtype([("phy_offset", ">i8"), ("msg_size", ">i4"), ("tags_code", ">i8")])
BATCH_UNIT_DTYPE: Final = np.dtype(
    [
        ("phy_offset", ">i8"),
        ("msg_size", ">i4"),
        ("tags_code", ">i8"),
        ("store_timestamp", ">i8"),
        ("msg_base_offset", ">i8"),
        ("batch_size", ">i2"),
        ("compacted_offset", ">i4"),
        ("reserved", ">i4"),
    ]
)
ENTRY_DTYPE: Final = np.dtype([("key_hash", ">i4"), ("phy_offset", ">i8"), ("time_diff", ">i4"), ("prev_index", ">i4")])
INDEX_ROW_DTYPE: Final = np.dtype([("phy_offset", "<i8"), ("store_timestamp", "<i8"), ("key_hash", "<i4")])
"""An index entry before its number is known."""

SLOT_DTYPE: Final = np.dtype([("tick", ">i8"), ("first", ">i8"), ("last", ">i8"), ("num", ">i4"), ("magic", ">i4")])
TIMER_UNIT_DTYPE: Final = np.dtype(
    [
        ("size", ">i4"),
        ("previous", ">i8"),
        ("magic", ">i4"),
        ("write_ms", ">i8"),
        ("delay_ms", ">i4"),
        ("phy_offset", ">i8"),
        ("msg_size", ">i4"),
        ("topic_hash", ">i4"),
        ("reserved", ">i8"),
    ]
)
assert UNIT_DTYPE.itemsize == UNIT_SIZE
assert BATCH_UNIT_DTYPE.itemsize == BATCH_UNIT_SIZE
assert ENTRY_DTYPE.itemsize == ENTRY_SIZE
assert SLOT_DTYPE.itemsize == SLOT_SIZE
assert TIMER_UNIT_DTYPE.itemsize == TIMER_UNIT_SIZE


def units_of(phy_offsets: npt.NDArray[np.integer], sizes: npt.NDArray[np.integer] | int) -> npt.NDArray[np.void]:
    """Return units, without tags, of records at known positions."""
    units = np.zeros(len(phy_offsets), UNIT_DTYPE)
    units["phy_offset"], units["msg_size"] = phy_offsets, sizes
    return units
