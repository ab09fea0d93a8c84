"""Rows for benchmarks: incompressible bodies of one size, with a key and a tag each."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

_DERIVED: Final = ("consumequeue", "index", "checkpoint", "rocketflow", "config")


def rows(count: int, body_size: int) -> pa.RecordBatch:
    raw = np.random.default_rng(7).integers(0, 255, count * body_size + 16, dtype=np.uint8)
    offsets = np.arange(0, (count + 1) * body_size, body_size, dtype=np.int32)
    bodies = pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    keys = pa.array([f"order-{number}" for number in range(count)])
    tags = pa.array([f"tag{number % 7}" for number in range(count)])
    return pa.RecordBatch.from_arrays([bodies, keys, tags], names=["body", "keys", "tags"])


def lose_derived(store: Path) -> None:
    """Delete everything of a store but its CommitLog, and mark it as stopped uncleanly (`abort`)."""
    for name in _DERIVED:
        target = store / name
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
    (store / "abort").touch()
    os.sync()
