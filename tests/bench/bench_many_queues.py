"""10,000 queues in one store compared with 8: time of the open, rate of puts, memory.

A child process opens each store after a clean stop and then puts messages to all queues in turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from rocketflow_store import Message, MessageStore, StoreConfig
from tests.bench.figures import Figure
from tests.support.bulk_rows import rows
from tests.support.memory import rss_anon_mib

_RUNS: Final = 3
_FEW: Final = 8
_MANY: Final = 10_000
_PUTS: Final = 50_000
_BATCHES: Final = 4
_ROWS: Final = 250_000
_BODY: Final = 200
_CONFIG: Final = StoreConfig(mapped_file_size_commit_log=256 << 20, default_topic_queue_nums=_FEW)
_UNITS: Final = {"opened after a clean stop": "s", "closed": "s", "RssAnon": "MiB"}


def run(scale: float) -> Iterator[Figure]:
    many = max(int(_MANY * scale), 2 * _FEW)
    found: dict[tuple[int, str], list[float]] = {}
    for _ in range(_RUNS):
        for queues in (_FEW, many):
            with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
                for name, value in _in_a_process(Path(home) / "s", queues, scale).items():
                    found.setdefault((queues, name), []).append(value)
    for (queues, name), values in found.items():
        yield Figure(f"{queues:,} queues: {name}", _UNITS.get(name, "msg/s"), tuple(values))
    for name in ("put_message 200 B", "append_batch 200 B"):
        ratios = (more / few for more, few in zip(found[many, name], found[_FEW, name], strict=True))
        yield Figure(f"  {name}: {many:,} queues / {_FEW} queues", "x", tuple(ratios))


def _in_a_process(path: Path, queues: int, scale: float) -> dict[str, float]:
    with MessageStore.open(path, _CONFIG) as store:
        store.create_topic("t", queues)
        for queue_id in range(queues):
            assert store.put_message(Message("t", b"x" * _BODY, queue_id=queue_id)).stored
    command = [sys.executable, "-m", "tests.bench.bench_many_queues", str(path), str(queues), str(scale)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _measured(path: Path, queues: int, scale: float) -> dict[str, float]:
    batch = rows(int(_ROWS * scale), _BODY)
    batch = batch.append_column("queueId", pa.array([n % queues for n in range(batch.num_rows)], pa.int32()))
    messages = [Message("t", b"x" * _BODY, queue_id=number % queues) for number in range(int(_PUTS * scale))]
    clock, figures = time.perf_counter, {}
    began = clock()
    with MessageStore.open(path, _CONFIG) as store:
        figures["opened after a clean stop"] = clock() - began
        began = clock()
        for message in messages:
            store.put_message(message)
        figures["put_message 200 B"] = len(messages) / (clock() - began)
        began = clock()
        for _ in range(_BATCHES):
            store.append_batch(batch, topic="t")
        figures["append_batch 200 B"] = _BATCHES * batch.num_rows / (clock() - began)
        figures["RssAnon"] = rss_anon_mib()
        began = clock()
    figures["closed"] = clock() - began
    return figures


if __name__ == "__main__":
    print(json.dumps(_measured(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))))
