"""Delivery of many delayed messages that are due in the same second, by one process and by Spark.

The same number of rows of a topic is also requeued manually, with a condition, by Spark.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.delivery.delay.delivery import deliver_due
from rocketflow_store.delivery.requeue.requeue_run import RequeueRequest
from rocketflow_store.model.clock import ManualClock
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import rows

RUNS: Final = 3
COUNT: Final = 500_000
BODY_SIZE: Final = 200
_BATCH: Final = 100_000
_BEGIN_MS: Final = 1_800_000_000_000


def run(scale: float) -> Iterator[Figure]:
    from rocketflow.spark.requeue.delay_driver import deliver_due_on_spark
    from rocketflow.spark.requeue.manual_requeue import requeue_on_spark
    from rocketflow.spark.requeue.requeue_arguments import RequeueJob
    from rocketflow.spark.session import build_session

    count = max(int(COUNT * scale) // _BATCH, 1) * _BATCH
    spark = build_session("rocketflow-bench", "local[2]", fast_start=True)
    try:
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            path = Path(home) / "s"
            clock = ManualClock(_BEGIN_MS)
            config = StoreConfig(clock=clock)

            def here() -> int:
                with MessageStore.open(path, config) as store:
                    return deliver_due(store).rows

            def on_spark() -> int:
                return int(deliver_due_on_spark(spark, path, config=config)["rows"])

            def by_hand(number: int) -> int:
                request = RequeueRequest(f"run-{number}", "dead", "again", "tags IS NOT NULL AND length(body) > 0")
                return requeue_on_spark(spark, RequeueJob(str(path), frozenset(), 0, request), request).rows

            seconds: dict[str, list[float]] = {"append": [], "here": [], "on Spark": [], "by hand": []}
            for _ in range(RUNS + 1):  # the first one warms up
                for label, deliver in (("here", here), ("on Spark", on_spark)):
                    seconds["append"].append(_timed(lambda: _wait(path, config, count)))
                    clock.set(clock.now_ms() + 1000)
                    seconds[label].append(_timed(lambda deliver=deliver: _all(deliver, count)))
            _check(path, "t", count * 2 * (RUNS + 1))
            _put(path, config, count, rows(_BATCH, BODY_SIZE), "dead")
            for number in range(RUNS + 1):
                seconds["by hand"].append(_timed(lambda number=number: _all(lambda: by_hand(number), count)))
            _check(path, "again", count * (RUNS + 1))
    finally:
        spark.stop()
    what = f"{count:,} due messages of {BODY_SIZE} B"
    figures = {
        "append": _figure(f"{what}: put them with their level", count, seconds["append"][2:]),
        "here": _figure(f"{what}: delivered, one process", count, seconds["here"][1:]),
        "on Spark": _figure(f"{what}: delivered, Spark local[2]", count, seconds["on Spark"][1:]),
        "by hand": _figure(
            f"{count:,} rows of {BODY_SIZE} B requeued by hand, Spark local[2]", count, seconds["by hand"][1:]
        ),
    }
    yield from figures.values()
    yield ratio(figures["here"], figures["append"])
    yield ratio(figures["on Spark"], figures["here"])


def _wait(path: Path, config: StoreConfig, count: int) -> None:
    """Put `count` messages with a delay of one second."""
    batch = rows(_BATCH, BODY_SIZE)
    _put(path, config, count, batch.append_column("delayTimeLevel", pa.array([1] * _BATCH, pa.int32())), "t")


def _put(path: Path, config: StoreConfig, count: int, batch: pa.RecordBatch, topic: str) -> None:
    with MessageStore.open(path, config) as store:
        for _ in range(count // _BATCH):
            store.append_batch(batch, topic=topic)


def _all(deliver: Callable[[], int], count: int) -> None:
    rows_delivered = deliver()
    assert rows_delivered == count, (rows_delivered, count)


def _timed(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def _figure(case: str, count: int, seconds: list[float]) -> Figure:
    return Figure(case, "msg/s", tuple(count / one for one in seconds))


def _check(path: Path, topic: str, count: int) -> None:
    with StoreReader(path) as reader:
        assert sum(reader.max_offset(topic, queue) for queue in reader.queues(topic)) == count
