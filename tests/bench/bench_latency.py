"""Latency from the append to the row in `foreachBatch`: a producer process, 50 messages/s, no trigger interval."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from rocketflow_store import MessageStore
from tests.bench.figures import Figure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RUNS: Final = 3
_RATE: Final = 50
_WARM_UP_S: Final = 6
_SECONDS: Final = 20
_PRODUCER: Final = """
import sys, time
from rocketflow_store import Message, MessageStore
path, rate, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
with MessageStore.open(path) as store:
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < seconds:
        store.put_message(Message("t", str(time.time_ns()).encode(), queue_id=0))
        number += 1
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
"""


def run(scale: float) -> Iterator[Figure]:
    from rocketflow.spark.session import build_session

    spark = build_session("bench", "local[2]", {"spark.driver.memory": "2g"})
    halves, tails = [], []
    for _ in range(_RUNS):
        seen: list[tuple[int, int]] = []

        def collect(rows: DataFrame, _: int, seen: list[tuple[int, int]] = seen) -> None:
            found = rows.collect()
            now = time.time_ns()
            seen += [(int(row.body), now) for row in found]

        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            path = Path(home) / "s"
            with MessageStore.open(path) as store:
                store.create_topic("t", 1)
            reader = spark.readStream.format("rocketflow").option("path", str(path)).option("subscribe", "t")
            rows = reader.option("startingOffsets", "earliest").schema("body binary").load()
            query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", f"{home}/c").start()
            seconds = _WARM_UP_S + _SECONDS * scale
            command = [sys.executable, "-c", _PRODUCER, str(path), str(_RATE), str(seconds)]
            subprocess.run(command, check=True)
            query.processAllAvailable()
            query.stop()
        sent, shown = np.array(seen).T
        warm = sent > sent[0] + _WARM_UP_S * 1_000_000_000
        latencies = (shown - sent)[warm] / 1e6
        halves.append(float(np.percentile(latencies, 50)))
        tails.append(float(np.percentile(latencies, 99)))
    spark.stop()
    yield Figure("append -> row in foreachBatch, p50", "ms", tuple(halves))
    yield Figure("append -> row in foreachBatch, p99", "ms", tuple(tails))
