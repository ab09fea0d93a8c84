"""CRC-32 of many values: the only loop of the bulk paths that runs Python code for each message."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from isal.isal_zlib import crc32

from rocketflow_store.records.arrow.gather import gather

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_SLICES_FROM_BYTES: Final = 384
"""Mean length from which a slice of the column is cheaper than a copy of the value."""
_COPIED_BELOW_BYTES: Final = 256
"""Mean length below which a copy is cheaper than a slice of a buffer."""


def crc32_slices(
    buffer: pa.Buffer, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the unsigned CRC-32 of each [starts[i], ends[i]) of `buffer`; long slices are not copied."""
    if int((ends - starts).sum()) < _COPIED_BELOW_BYTES * len(starts):
        return crc32_column(gather(buffer, starts, ends))
    octets = memoryview(buffer)
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([crc32(octets[start:end]) for start, end in pairs], np.int64)


def crc32_column(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return the unsigned CRC-32 of each value of a binary array without nulls."""
    count = len(values)
    if count == 0:
        return np.zeros(0, np.int64)
    offsets: npt.NDArray[Any] = np.frombuffer(values.buffers()[1], np.int32, count + 1, values.offset * 4)
    if int(offsets[-1]) - int(offsets[0]) < _SLICES_FROM_BYTES * count:
        return np.fromiter(map(crc32, values.to_pylist()), np.int64, count)
    octets = memoryview(values.buffers()[2])
    return np.array([crc32(octets[start:end]) for start, end in pairwise(offsets.tolist())], np.int64)
