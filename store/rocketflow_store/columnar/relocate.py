"""Give encoded records their place: offsets and store time patched into bytes that are otherwise final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rocketflow_store.format.record import PROPERTY_CRC_SIZE, property_crc_tail
from rocketflow_store.message import BORN_HOST_V6_FLAG

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


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
    """Patch queueOffset, physicalOffset and storeTimestamp of the records at `starts` of `octets` (writable).

    With `property_crc` the last 20 bytes of every record are computed anew.
    """
    if len(starts) == 0:
        return
    window: npt.NDArray[Any] = np.ndarray((len(octets) - 7,), ">i8", buffer=octets, strides=(1,))
    window[starts + 20] = queue_offsets
    window[starts + 28] = phy_offsets
    sys_flags: npt.NDArray[Any] = np.ndarray((len(octets) - 3,), ">i4", buffer=octets, strides=(1,))[starts + 36]
    window[starts + 56 + 12 * (sys_flags & BORN_HOST_V6_FLAG != 0)] = store_timestamp_ms
    if property_crc:
        view = octets.data
        for start, end in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
            view[end - PROPERTY_CRC_SIZE : end] = property_crc_tail(view[start : end - PROPERTY_CRC_SIZE])
