"""Write offsets and store time into encoded records that are otherwise final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.format.record import PROPERTY_CRC_SIZE, property_crc_tail
from rocketflow_store.kernel import COMPILED
from rocketflow_store.model.system_flags import BORN_HOST_V6_FLAG

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


_TAIL_DTYPE: Final = np.dtype([("name", "V9"), ("lowest", "<u4"), ("middle", "<u4"), ("highest", "<u2"), ("end", "u1")])
"""A property CRC: the least significant digit is first."""
assert _TAIL_DTYPE.itemsize == PROPERTY_CRC_SIZE
_TAIL_NAME: Final = np.void(property_crc_tail(b"")[:9])
_DIGITS: Final = np.frombuffer(b"".join((b"%04d" % number)[::-1] for number in range(10_000)), "<u4")
_TWO_DIGITS: Final = np.frombuffer(b"".join((b"%02d" % number)[::-1] for number in range(100)), "<u2")


def relocate(
    octets: npt.NDArray[np.uint8],
    starts: Ints,
    sizes: Ints,
    phy_offsets: Ints,
    queue_offsets: Ints,
    store_timestamp_ms: int,
    *,
    property_crc: bool = False,
) -> None:
    """Write queueOffset, physicalOffset and storeTimestamp of the records at `starts` of `octets` (writable).

    With `property_crc` the last 20 bytes of every record are recalculated.
    """
    if len(starts) == 0:
        return
    if COMPILED is not None:
        places = (np.ascontiguousarray(one, np.int64) for one in (starts, sizes, phy_offsets, queue_offsets))
        if COMPILED.place_records(octets, *places, store_timestamp_ms, property_crc):
            return
    window: npt.NDArray[Any] = np.ndarray((len(octets) - 7,), ">i8", buffer=octets, strides=(1,))
    window[starts + 20] = queue_offsets
    window[starts + 28] = phy_offsets
    sys_flags: npt.NDArray[Any] = np.ndarray((len(octets) - 3,), ">i4", buffer=octets, strides=(1,))[starts + 36]
    window[starts + 56 + 12 * (sys_flags & BORN_HOST_V6_FLAG != 0)] = store_timestamp_ms
    if property_crc:
        view, ends = octets.data, starts + sizes - PROPERTY_CRC_SIZE
        found = [crc32(view[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        tails = np.empty(len(starts), _TAIL_DTYPE)
        tails["name"], tails["end"] = _TAIL_NAME, 2
        crcs = np.array(found, np.uint32) & np.uint32(0x7FFFFFFF)
        upper, lowest = np.divmod(crcs, np.uint32(10_000))
        highest, middle = np.divmod(upper, np.uint32(10_000))
        tails["lowest"], tails["middle"], tails["highest"] = _DIGITS[lowest], _DIGITS[middle], _TWO_DIGITS[highest]
        np.lib.stride_tricks.sliding_window_view(octets, PROPERTY_CRC_SIZE, writeable=True)[ends] = tails.view(
            np.uint8
        ).reshape(-1, PROPERTY_CRC_SIZE)
