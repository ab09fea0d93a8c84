"""The store without Spark: appends, puts, decode, open, import."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from tests.bench.apache_store import VERSION, ApacheStore
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import rows
from tests.support.maven import JarsNotFetchedError

RUNS = 3


def run(scale: float) -> Iterator[Figure]:
    try:
        apache: ApacheStore | None = ApacheStore()
    except JarsNotFetchedError as error:
        apache = None
        print(f"without Apache's store: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        path = Path(home) / "s"
        for size, count in ((200, int(500_000 * scale)), (1024, int(250_000 * scale))):
            yield from _appends(path, size, count, apache)
            yield from _decode(path, size)
        yield from _verifies(path, int(400_000 * scale))
        yield from _puts(path, int(20_000 * scale))
        yield from _opens(path)
    yield from _imports()


def _appends(path: Path, size: int, count: int, apache: ApacheStore | None) -> Iterator[Figure]:
    """Measure appends with and without index, and Apache's store with 1 and 4 threads, in turn."""
    batch = rows(count, size)
    runs: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for label, indexed in (("without index", False), ("2 index keys", True)):
            shutil.rmtree(path, ignore_errors=True)
            with MessageStore.open(path, StoreConfig(message_index_enable=indexed)) as store:
                store.append_batch(batch.slice(0, 2048), topic="t")
                began = time.perf_counter()
                store.append_batch(batch, topic="t")
                seconds = time.perf_counter() - began
            runs.setdefault(label, []).append(count / seconds / 1e6)
        if apache is not None:
            for threads in (1, 4):
                rate = apache.append_rate(threads, count, size)
                runs.setdefault(f"Apache {VERSION} until dispatched, {threads} threads", []).append(rate)
    figures = {
        label: Figure(f"append_batch {size} B ASYNC_FLUSH, {label}", "M msg/s", tuple(found))
        for label, found in runs.items()
    }
    yield from figures.values()
    for label, figure in figures.items():
        if label.startswith("Apache"):
            yield ratio(figures["2 index keys"], figure)


def _decode(path: Path, size: int) -> Iterator[Figure]:
    for label, columns in (("all columns", None), ("body + queueOffset", ["queueOffset", "body"])):
        runs = []
        for _ in range(RUNS):
            with StoreReader(path) as reader:
                bounds = reader.snapshot().queues
                began = time.process_time()
                total = sum(
                    batch.num_rows
                    for (topic, queue), (low, high) in bounds.items()
                    for batch in reader.read(topic, queue, low, high, columns)
                )
                runs.append(total / (time.process_time() - began) / 1e6)
        yield Figure(f"decode {size} B, {label}, per core", "M msg/s", tuple(runs))


def _verifies(path: Path, count: int) -> Iterator[Figure]:
    """Measure a complete verify: records with CRC, queue units, two index entries each; CommitLog files of 128 MiB."""
    shutil.rmtree(path, ignore_errors=True)
    batch = rows(count // 4, 1024)
    with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=128 << 20)) as store:
        for _ in range(4):
            store.append_batch(batch, topic="t")
    for workers in (1, 2):
        a_core, wall = [], []
        for _ in range(RUNS):
            used, began = time.process_time(), time.perf_counter()
            found = verify_store(path, workers=workers)
            a_core.append(found.bytes / 1e6 / (time.process_time() - used))
            wall.append(found.bytes / 1e6 / (time.perf_counter() - began))
            assert found.clean
        if workers == 1:
            yield Figure("verify 1 KiB, a core", "MB/s", tuple(a_core))
        yield Figure(f"verify 1 KiB, {workers} workers", "MB/s", tuple(wall))


def _puts(path: Path, count: int) -> Iterator[Figure]:
    message = Message("t", b"x" * 200, tags="a", keys=["k"])
    for kind, threads in ((FlushDiskType.ASYNC_FLUSH, 1), (FlushDiskType.SYNC_FLUSH, 8)):
        runs = []
        for _ in range(RUNS):
            shutil.rmtree(path, ignore_errors=True)
            with MessageStore.open(path, StoreConfig(flush_disk_type=kind)) as store:

                def work(store: MessageStore = store, part: int = count // threads) -> None:
                    for _ in range(part):
                        store.put_message(message)

                workers = [threading.Thread(target=work) for _ in range(threads)]
                began = time.perf_counter()
                for one in workers:
                    one.start()
                for one in workers:
                    one.join()
                runs.append(count / (time.perf_counter() - began) / 1e3)
        yield Figure(f"put_message 200 B {kind.name}, {threads} threads", "k msg/s", tuple(runs))


def _opens(path: Path) -> Iterator[Figure]:
    shutil.rmtree(path, ignore_errors=True)
    batch = rows(100_000, 1024)
    with MessageStore.open(path) as store:
        while store.max_phy_offset < 1 << 30:
            store.append_batch(batch, topic="t")
    opens, infos = [], []
    for _ in range(RUNS):
        began = time.perf_counter()
        MessageStore.open(path).close()
        opens.append(time.perf_counter() - began)
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from rocketflow.cli import main; main()", "store", "info", str(path), "--json"],
            capture_output=True,
            check=True,
        )
        infos.append(time.perf_counter() - began)
    yield Figure("open and close 1 GiB after a clean stop", "s", tuple(opens))
    yield Figure("rocketflow store info, 1 GiB, whole process", "s", tuple(infos))


def _imports() -> Iterator[Figure]:
    for label, code in (
        ("import rocketflow_store (all public names)", "from rocketflow_store import *"),
        ("rocketflow --help", "import sys; sys.argv[1:] = ['--help']; from rocketflow.cli import main; main()"),
    ):
        runs = []
        for _ in range(RUNS):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
            runs.append(time.perf_counter() - began)
        yield Figure(f"{label}, whole process", "s", tuple(runs))
