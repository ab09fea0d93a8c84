"""Slices of a buffer as Arrow arrays: one pass in Arrow's C++ over many (start, end) pairs.

Ascending (start, end) pairs that do not overlap are, one after the other, the offsets of a binary array whose even
elements are the slices and whose odd elements are the gaps; `take` of the even ones copies only the slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rocketflow_store.model.java_compat import java_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    IntArray = npt.NDArray[np.integer[Any]]

_MAX_ROWS = 1 << 14
_EVEN = pa.Array.from_buffers(
    pa.int32(), _MAX_ROWS, [None, pa.py_buffer(np.arange(0, 2 * _MAX_ROWS, 2, dtype=np.int32))]
)


def even_indices(count: int) -> pa.Array:
    """Return 0, 2, 4 ... as an int32 array of `count`."""
    if count <= _MAX_ROWS:
        return _EVEN.slice(0, count)
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))])


def gather(buffer: pa.Buffer, starts: IntArray, ends: IntArray) -> pa.Array:
    """Return slices [starts[i], ends[i]) of `buffer` as a binary array of len(starts).

    Positions count from the buffer's first byte; 0 <= starts <= ends <= buffer.size must hold. Slices that do not
    ascend are copied one by one (a queue's records ascend in the log, so this happens only in damaged stores).
    """
    count = len(starts)
    if count == 0:
        return pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(b"\0\0\0\0"), pa.py_buffer(b"")])
    base = int(starts[0])
    if int(ends[-1]) - base >= 1 << 31 or (starts[1:] < ends[:-1]).any():
        return _gather_one_by_one(buffer, starts, ends)
    offsets = np.empty(2 * count + 1, dtype=np.int32)
    offsets[0 : 2 * count : 2] = starts - base
    offsets[1 : 2 * count : 2] = ends - base
    offsets[2 * count] = offsets[2 * count - 1]
    laid_out = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), buffer.slice(base)])
    return laid_out.take(even_indices(count))


def _gather_one_by_one(buffer: pa.Buffer, starts: IntArray, ends: IntArray) -> pa.Array:
    view = memoryview(buffer)
    parts = [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(parts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))])


def fixed_width_at(octets: npt.NDArray[np.uint8], dtype: str, positions: IntArray) -> npt.NDArray[Any]:
    """Return the values of a big-endian field at arbitrary (unaligned) byte `positions`, as native integers."""
    wire = np.dtype(dtype)
    window: npt.NDArray[Any] = np.ndarray(
        shape=(len(octets) - wire.itemsize + 1,), dtype=wire, buffer=octets, strides=(1,)
    )
    return window[positions].astype(wire.newbyteorder("="))


def in_row(values: npt.NDArray[np.integer]) -> IntArray:
    """Return integers as the kernel takes them: of 64 bits, without gaps."""
    return np.ascontiguousarray(values, np.int64)


def windows_at(octets: npt.NDArray[np.uint8], width: int, positions: IntArray) -> npt.NDArray[np.uint8]:
    """Return `width` bytes from each position: an array of shape (len(positions), width), contiguous.

    NumPy takes items of `width` bytes, each of which begins one byte after the last, twice as fast as rows of bytes.
    """
    if width == 0:
        return np.empty((len(positions), 0), np.uint8)
    window: npt.NDArray[Any] = np.ndarray(
        shape=(len(octets) - width + 1,), dtype=np.dtype((np.void, width)), buffer=octets, strides=(1,)
    )
    return window[positions].view(np.uint8).reshape(-1, width)


def validity_bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Return Arrow's validity buffer of a mask, None if everything is valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def with_validity(array: pa.Array, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """Return `array` (without nulls) with the rows outside `valid` set to null."""
    bitmap = validity_bitmap(valid)
    if bitmap is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]], offset=array.offset)


def to_string(array: pa.Array) -> pa.Array:
    """Return a binary array as strings; bytes that are not UTF-8 are replaced as by Java's decoder."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        return values_array(
            [None if raw is None else java_text(raw).encode() for raw in array.to_pylist()], pa.string()
        )


def values_array(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return single values as an array of binary or string; `pa.array` would import pandas."""
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(one or b"") for one in values], out=offsets[1:])
    data = pa.py_buffer(b"".join(one for one in values if one))
    valid = np.fromiter((one is not None for one in values), bool, len(values))
    return pa.Array.from_buffers(kind, len(values), [validity_bitmap(valid), pa.py_buffer(offsets), data])


def int_array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return a numpy array as an Arrow array of `kind`, without a copy if the widths agree."""
    wire = np.ascontiguousarray(values, dtype=f"i{kind.bit_width // 8}")
    return pa.Array.from_buffers(kind, len(wire), [None, pa.py_buffer(wire)])


def constant_string(text: str, count: int) -> pa.Array:
    """Return `text` repeated `count` times."""
    raw = text.encode()
    offsets = np.arange(0, (count + 1) * len(raw), len(raw), dtype=np.int32) if raw else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw * count)])
