"""Processor time of writes with the compiled kernel and without it, in turn: encode, appends, puts, a sink's commit."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.commits.batch_commit import SinkBatch, commit_batch
from rocketflow_store.commits.staged_part import stage
from rocketflow_store.records.encoding import compiled_messages, compiled_rows, prepared, relocate
from rocketflow_store.records.encoding.encode import BatchEncoder
from rocketflow_store.views.dispatch import dispatcher
from rocketflow_store.views.index import index_file
from tests.bench.bench_put import client_batch
from tests.bench.figures import Figure
from tests.support.bulk_rows import rows
from tests.support.kernel_switch import without_kernel

RUNS: Final = 5
_MODULES: Final = (compiled_messages, compiled_rows, prepared, relocate, dispatcher, index_file)
_MESSAGE: Final = Message("t", b"x" * 200, tags="a", keys=["k"])

Case = Callable[[MessageStore, Path], int]
"""Writes to a store, with a folder of its own; returns how many messages it wrote."""


def run(scale: float) -> Iterator[Figure]:
    puts = int(12_000 * scale)
    cases: dict[str, Case] = {
        "put_message, 1 thread": lambda store, _: _in_threads(store, 1, puts),
        "put_message, 4 threads": lambda store, _: _in_threads(store, 4, puts),
        "put_messages, 32 a call": lambda store, _: sum(
            len(store.put_messages([_MESSAGE] * 32)) for _ in range(puts // 32)
        ),
        "client batches of 32": lambda store, _: _client_batches(store, 2 * puts // 32),
    }
    for size, label in ((200, "200 B"), (1024, "1 KiB")):
        batch = rows(int((100_000 if size == 200 else 50_000) * scale), size)

        def encode(store: MessageStore, _: Path, batch: object = batch) -> int:
            encoder = BatchEncoder(store.config, lambda _: 4, "t", row_hashes=True)
            return sum(len(chunk.sizes) for chunk in encoder.encode(batch, 1))

        def commit(store: MessageStore, folder: Path, batch: object = batch) -> int:
            encoder = BatchEncoder(store.config, lambda _: 4, "t", row_hashes=True)
            part = stage(encoder.encode(batch, 1), folder, "part")
            return commit_batch(store, SinkBatch("sink", "sink", 0, "run", 1, [part])).rows

        cases[f"encode {label}"] = encode
        cases[f"append_batch {label}"] = lambda store, _, batch=batch: store.append_batch(batch, topic="t").rows
        cases[f"sink: stage and commit {label}"] = commit
    taken: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        for _ in range(RUNS):
            for label, case in cases.items():
                for compiled in (True, False):
                    with nullcontext() if compiled else without_kernel(*_MODULES):
                        taken.setdefault((label, compiled), []).append(_measured(Path(home), case))
    for label in cases:
        on, off = taken[label, True], taken[label, False]
        yield Figure(f"{label}, kernel on", "us CPU a message", tuple(on))
        yield Figure(f"{label}, kernel off", "us CPU a message", tuple(off))
        yield Figure("  off / on", "x", (statistics.median(off) / statistics.median(on),))


def _measured(home: Path, case: Case) -> float:
    """Return the processor time (us) of a message of a case in a new store."""
    shutil.rmtree(home / "s", ignore_errors=True)
    shutil.rmtree(home / "parts", ignore_errors=True)
    with MessageStore.open(home / "s", StoreConfig(mapped_file_size_commit_log=256 << 20)) as store:
        for _ in range(20):
            store.put_message(_MESSAGE)
        began = time.process_time()
        count = case(store, home / "parts")
        return (time.process_time() - began) / count * 1e6


def _in_threads(store: MessageStore, threads: int, count: int) -> int:
    def work() -> None:
        for _ in range(count // threads):
            store.put_message(_MESSAGE)

    started = [threading.Thread(target=work) for _ in range(threads)]
    for one in started:
        one.start()
    for one in started:
        one.join()
    return count // threads * threads


def _client_batches(store: MessageStore, count: int) -> int:
    batch = client_batch()
    return sum(store.put_message(batch).message_count for _ in range(count))
