"""Binary Arrow arrays, created and joined row by row in Arrow's C++."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rocketflow_store.model.property_names import PROPERTY_UNIQ_KEY

if TYPE_CHECKING:
    import numpy.typing as npt

_HEX_DIGITS: Final = np.frombuffer("".join(f"{value:02X}" for value in range(256)).encode(), "<u2")
_UNIQ_KEY_NAME: Final = f"{PROPERTY_UNIQ_KEY}\x01".encode()


def binary_array(values: list[bytes]) -> pa.Array:
    """Return the values as an array."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    )


def empty_values(count: int) -> pa.Array:
    """Return a binary array of `count` empty values."""
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(bytes(4 * (count + 1))), pa.py_buffer(b"")])


EMPTY: Final = binary_array([b""])[0]
"""A scalar, taken from an array because `pa.scalar` would import pandas."""


def fixed_width(rows: npt.NDArray[np.uint8]) -> pa.Array:
    """Return an (n, width) byte matrix as a binary array of n values."""
    count, width = rows.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)[: count + 1]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def join(*pieces: Any) -> pa.Array:
    """Concatenate the pieces of each row; a null piece counts as empty."""
    if len(pieces) == 1 and pieces[0].null_count == 0:
        return pieces[0]
    # the leading empty piece is never null: a row that has only nulls would be missing from the result
    return pc.binary_join_element_wise(EMPTY, *pieces, EMPTY, null_handling="skip")


def taken(values: list[bytes], codes: npt.NDArray[np.int32]) -> Any:
    """Return `values[codes[i]]` for every row; a scalar if there is only one value."""
    if len(values) == 1:
        return binary_array(values)[0]
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(np.ascontiguousarray(codes))])
    return binary_array(values).take(indices)


def bool_array(mask: npt.NDArray[np.bool_]) -> pa.Array:
    """Return a mask as an Arrow array."""
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))])


def reserved_uniq_keys(prefix: str, tick: int, count: int) -> tuple[pa.Array, pa.Array]:
    """Return (UNIQ_KEYs of a reserved prefix and `count` ticks as strings, their property segments)."""
    name, start = _UNIQ_KEY_NAME, len(_UNIQ_KEY_NAME)
    width = len(prefix) + 12
    rows = np.empty((count, start + width + 1), np.uint8)
    rows[:, :start] = np.frombuffer(name, np.uint8)
    rows[:, start : start + len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    ticks = (tick + np.arange(count, dtype=np.int64)).astype(">i8").view(np.uint8).reshape(count, 8)[:, 2:]
    rows[:, start + len(prefix) : -1] = _HEX_DIGITS[ticks].view(np.uint8).reshape(count, 12)
    rows[:, -1] = 2
    return fixed_width(np.ascontiguousarray(rows[:, start:-1])).cast(pa.string()), fixed_width(rows)
