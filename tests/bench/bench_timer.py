"""Delivery of many timer messages that are due in the same second: from the wheel, and not yet in it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.timer.deliver_due import deliver_due_timers
from rocketflow_store.model.clock import ManualClock
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import rows

RUNS: Final = 3
COUNT: Final = 500_000
BODY_SIZE: Final = 200
_BATCH: Final = 100_000
_BEGIN_MS: Final = 1_800_000_000_000
_WAIT_MS: Final = 60_000


def run(scale: float) -> Iterator[Figure]:
    count = max(int(COUNT * scale) // _BATCH, 1) * _BATCH
    seconds: dict[str, list[float]] = {"append": [], "take in": [], "from the wheel": [], "at once": [], "nothing": []}
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        path, clock = Path(home) / "s", ManualClock(_BEGIN_MS)
        config = StoreConfig(clock=clock)
        for _ in range(RUNS + 1):  # the first one warms up
            for way in ("from the wheel", "at once"):
                seconds["append"].append(_timed(lambda: _wait(path, config, count)))
                if way == "from the wheel":
                    seconds["take in"].append(_timed(lambda: _deliver(path, config, 0)))
                clock.set(clock.now_ms() + _WAIT_MS + 1000)
                seconds[way].append(_timed(lambda: _deliver(path, config, count)))
                seconds["nothing"].append(_timed(lambda: _deliver(path, config, 0)))
        with StoreReader(path) as reader:
            found = sum(reader.max_offset("t", queue) for queue in reader.queues("t"))
            assert found == count * 2 * (RUNS + 1), found
    what = f"{count:,} timer messages of {BODY_SIZE} B, due in one second"
    figures = {
        label: Figure(f"{what}: {text}", "msg/s", tuple(count / one for one in seconds[label][warm:]))
        for label, text, warm in (
            ("append", "put them", 2),
            ("take in", "taken in, 60 s ahead", 1),
            ("from the wheel", "delivered from the wheel", 1),
            ("at once", "delivered, not taken in before", 1),
        )
    }
    yield from figures.values()
    yield ratio(figures["from the wheel"], figures["append"])
    yield Figure("a run that finds nothing due, store opened for it", "s", tuple(seconds["nothing"][2:]))


def _wait(path: Path, config: StoreConfig, count: int) -> None:
    batch = rows(_BATCH, BODY_SIZE)
    due = (config.clock.now_ms() + _WAIT_MS) // 1000 * 1000
    batch = batch.append_column("deliverTimestamp", pa.array([due] * _BATCH, pa.int64()))
    with MessageStore.open(path, config) as store:
        for _ in range(count // _BATCH):
            store.append_batch(batch, topic="t")


def _deliver(path: Path, config: StoreConfig, count: int) -> None:
    with MessageStore.open(path, config) as store:
        done = deliver_due_timers(store)
    assert done.delivered == count, done


def _timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began
