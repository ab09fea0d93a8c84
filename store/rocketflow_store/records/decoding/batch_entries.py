"""Find the entries of many client batches at once; `format.batch_body` parses a single one, and reports errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rocketflow_store.format.batch_body import BODY_AT, BODY_SIZE_AT, FIXED_SIZE
from rocketflow_store.format.properties import MAX_PROPERTIES_SIZE
from rocketflow_store.records.arrow.gather import fixed_width_at
from rocketflow_store.records.decoding.scan import follow_sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]


def entry_positions_of(bodies: Sequence[bytes | bytearray | memoryview]) -> list[Ints] | None:
    """Return the positions of the entries of each batch body; None if the entries of one do not fill it exactly."""
    blob = b"".join(bodies)
    bounds = np.cumsum([0, *map(len, bodies)])
    if not blob or bounds[-1] != len(blob) or (bounds[1:] == bounds[:-1]).any():
        return None
    octets, buffer = np.frombuffer(blob, np.uint8), pa.py_buffer(blob)
    positions, end = follow_sizes(buffer, 0, len(blob), FIXED_SIZE, len(blob))
    edges = np.append(positions, end)
    firsts = np.searchsorted(positions, bounds)
    if (edges[firsts] != bounds).any():
        return None
    room = np.diff(edges) - FIXED_SIZE
    body_sizes = fixed_width_at(octets, ">i4", positions + BODY_SIZE_AT).astype(np.int64)
    if (body_sizes < 0).any() or (body_sizes > room).any():
        return None
    property_sizes = fixed_width_at(octets, ">u2", positions + BODY_AT + body_sizes)
    if (property_sizes != room - body_sizes).any() or (property_sizes > MAX_PROPERTIES_SIZE).any():
        return None
    return [
        positions[first:stop] - base for first, stop, base in zip(firsts[:-1], firsts[1:], bounds[:-1], strict=True)
    ]
