"""Masks over binary columns: values that are present, values that are plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow.kafka.shared import property_names as names
from rocketflow_store.spi.arrow import bool_array

if TYPE_CHECKING:
    import numpy.typing as npt


def valid_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the mask of values that are not null."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    mask: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def text_mask(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the mask of values of a binary column that are plain text (`property_names.is_text`); nulls are not."""
    mask = valid_mask(column) & (np.asarray(pc.binary_length(column).fill_null(0)) > 0)
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return mask
    ends = np.frombuffer(offsets, np.int32, len(column) + 1, column.offset * 4)
    octets = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    odd = bool(((octets < 0x20) | (octets == 0x7F)).any())
    if not odd:
        try:
            pc.if_else(bool_array(mask), column, None).cast(pa.string())
        except pa.ArrowInvalid:
            odd = True
    if odd:
        mask &= np.array([one is not None and names.is_text(one) for one in column.to_pylist()], bool)
    return mask
