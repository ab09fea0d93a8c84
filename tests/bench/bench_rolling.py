"""Latency of puts while files roll: ASYNC_FLUSH, 20,000 messages a second, with and without preallocated files."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.testing import Probe
from tests.bench.figures import Figure

_RUNS: Final = 3
_RATE: Final = 20_000
_SECONDS: Final = 6
_FILE_SIZE: Final = 8 << 20
_BODY: Final = b"x" * 200


def run(scale: float) -> Iterator[Figure]:
    found: dict[tuple[bool, str], list[float]] = {}
    for _ in range(_RUNS):
        for preallocated in (True, False):
            with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
                latencies_ms, rolls = _latencies(Path(home) / "s", int(_RATE * _SECONDS * scale), preallocated)
            for name, value in (
                ("p50", np.percentile(latencies_ms, 50)),
                ("p99", np.percentile(latencies_ms, 99)),
                ("p99.9", np.percentile(latencies_ms, 99.9)),
                ("of the puts that roll, worst", latencies_ms[rolls].max(initial=0.0)),
                ("worst", latencies_ms.max()),
            ):
                found.setdefault((preallocated, name), []).append(float(value))
    for (preallocated, name), values in found.items():
        label = "files preallocated" if preallocated else "files allocated on demand"
        yield Figure(f"put 200 B ASYNC at 20 k/s, {label}, {name}", "ms", tuple(values))


def _latencies(path: Path, count: int, preallocated: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (time of each put in ms, the numbers of the puts that began a file)."""
    latencies = np.empty(count)
    phy_offsets = np.empty(count, np.int64)
    message = Message("t", _BODY, queue_id=0)
    clock = time.perf_counter
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=_FILE_SIZE)) as store:
        if not preallocated:
            Probe(store).allocate_on_demand_only()
        store.put_message(message)
        start = clock()
        for number in range(count):
            due = start + number / _RATE
            while (began := clock()) < due:
                time.sleep(0)  # lets the store's threads run
            phy_offsets[number] = store.put_message(message).physical_offset
            latencies[number] = clock() - began
    shutil.rmtree(path)
    return latencies * 1e3, np.flatnonzero(phy_offsets % _FILE_SIZE == 0)
