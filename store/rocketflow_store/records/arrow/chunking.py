"""Split consecutive rows into parts that fit the processor's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

CHUNK_BYTES: Final = 2 << 20
CHUNK_ROWS: Final = 4096


def chunks(sizes: npt.NDArray[np.integer], max_bytes: int = CHUNK_BYTES, max_rows: int = CHUNK_ROWS) -> Iterator[slice]:
    """Yield slices of rows with the given `sizes`, of at most `max_bytes` (or one row) and `max_rows` each."""
    ends = np.cumsum(sizes, dtype=np.int64)
    start = before = 0
    while start < len(sizes):
        stop = int(np.searchsorted(ends, before + max_bytes, side="right"))
        stop = min(max(stop, start + 1), start + max_rows, len(sizes))
        yield slice(start, stop)
        before, start = int(ends[stop - 1]), stop
