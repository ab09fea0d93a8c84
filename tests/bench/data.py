"""Rows to measure with: bodies of one size that do not compress, a key and a tag each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def rows(count: int, body_size: int) -> pa.RecordBatch:
    raw = np.random.default_rng(7).integers(0, 255, count * body_size + 16, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * body_size, body_size, dtype=np.int32)
    bodies = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    keys = pa.array([f"order-{number}" for number in range(count)])
    tags = pa.array([f"tag{number % 7}" for number in range(count)])
    return pa.RecordBatch.from_arrays([bodies, keys, tags], names=["body", "keys", "tags"])
