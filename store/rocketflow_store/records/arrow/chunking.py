"""Consecutive rows in parts that fit the processor's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

CHUNK_BYTES: Final = 2 << 20
CHUNK_ROWS: Final = 4096


def chunks(sizes: npt.NDArray[np.integer], max_bytes: int = CHUNK_BYTES, max_rows: int = CHUNK_ROWS) -> Iterator[slice]:
    """Rows of the given `sizes` in turn, at most `max_bytes` (one row alone may be larger) and `max_rows` at a time."""
    ends = np.cumsum(sizes, dtype=np.int64)
    start = before = 0
    while start < len(sizes):
        stop = int(np.searchsorted(ends, before + max_bytes, side="right"))
        stop = min(max(stop, start + 1), start + max_rows, len(sizes))
        yield slice(start, stop)
        before, start = int(ends[stop - 1]), stop
