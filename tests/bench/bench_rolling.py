"""How long a put takes while files roll: ASYNC_FLUSH, 20,000 messages a second, with and without files made ahead."""

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
        for ahead in (True, False):
            with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
                latencies_ms, rolls = _latencies(Path(home) / "s", int(_RATE * _SECONDS * scale), ahead)
            for name, value in (
                ("p50", np.percentile(latencies_ms, 50)),
                ("p99", np.percentile(latencies_ms, 99)),
                ("p99.9", np.percentile(latencies_ms, 99.9)),
                ("of the puts that roll, worst", latencies_ms[rolls].max(initial=0.0)),
                ("worst", latencies_ms.max()),
            ):
                found.setdefault((ahead, name), []).append(float(value))
    for (ahead, name), values in found.items():
        label = "files made ahead" if ahead else "files made when needed"
        yield Figure(f"put 200 B ASYNC at 20 k/s, {label}, {name}", "ms", tuple(values))


def _latencies(path: Path, count: int, ahead: bool) -> tuple[np.ndarray, np.ndarray]:
    """(time of each put in ms, which puts began a file)."""
    latencies = np.empty(count)
    phy_offsets = np.empty(count, np.int64)
    message = Message("t", _BODY, queue_id=0)
    clock = time.perf_counter
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=_FILE_SIZE)) as store:
        if not ahead:
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
