"""Reads, verify and rebuild with the compiled kernel and without it, in turn: processor time a record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from rocketflow_store import MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import rows
from tests.support.kernel_switch import pure_python

RUNS: Final = 5
SEVEN: Final = ("queueOffset", "storeTimestamp", "bornTimestamp", "body", "uniqKey", "keys", "tags")
TWO: Final = ("queueOffset", "body")


def run(scale: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        for size, count in ((200, int(400_000 * scale)), (1024, int(150_000 * scale))):
            path = Path(home) / str(size)
            with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=128 << 20)) as store:
                for _ in range(4):
                    store.append_batch(rows(count // 4, size), topic="t")
            for what, columns in (("decode, seven columns", SEVEN), ("decode, body + queueOffset", TWO)):
                yield from _in_turn(f"{what}, {size} B", lambda path=path, columns=columns: _decode(path, columns))  # type: ignore[misc]
            for what, work in (("verify", _verify), ("rebuild", _rebuild)):
                yield from _in_turn(f"{what}, {size} B", lambda path=path, work=work: work(path))  # type: ignore[misc]


def _in_turn(what: str, work: Callable[[], int]) -> Iterator[Figure]:
    """Measure `work`, which returns its records, with the kernel and without it."""
    found: dict[str, list[float]] = {"kernel": [], "Python": []}
    for _ in range(RUNS):
        for label, kind in (("Python", pure_python()), ("kernel", nullcontext())):
            with kind:
                began = time.process_time()
                records = work()
                found[label].append((time.process_time() - began) / records * 1e9)
    kernel, python = (Figure(f"{what}, {label}", "ns a record", tuple(found[label])) for label in found)
    yield kernel
    yield python
    yield ratio(python, kernel)


def _decode(path: Path, columns: tuple[str, ...]) -> int:
    with StoreReader(path) as reader:
        bounds = reader.snapshot().queues.items()
        found = [reader.read(topic, queue, low, high, columns) for (topic, queue), (low, high) in bounds]
        return sum(batch.num_rows for one in found for batch in one)


def _verify(path: Path) -> int:
    result = verify_store(path, workers=1)
    assert result.clean
    return result.records


def _rebuild(path: Path) -> int:
    return rebuild_store(path).records
