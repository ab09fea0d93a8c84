"""Rates, latencies and group commit of single, asynchronous and batched puts, compared with Apache's store."""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig
from rocketflow_store.files import disk
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS
from tests.bench.apache_store import VERSION, ApacheStore
from tests.bench.figures import Figure, ratio
from tests.support.maven import JarsNotFetchedError

RUNS: Final = 3
_BODY: Final = b"x" * 200
_MESSAGE: Final = Message("t", _BODY, tags="a", keys=["k"])
_BATCH_SIZE: Final = 32
_SLOW_SYNC_S: Final = 0.003
_IN_FLIGHT: Final = 4096
"""The largest number of unacknowledged messages of a caller, as RocketMQ's producers bound them."""

_BARE: Final = "64 threads that hand bytes over and wait, no store"
"""The upper bound of 64 writers: Python's threads and the disk alone."""


def run(scale: float) -> Iterator[Figure]:
    try:
        apache: ApacheStore | None = ApacheStore()
    except JarsNotFetchedError as error:
        apache = None
        print(f"without Apache's store: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        path = Path(home) / "s"
        yield from _small_runs(path, int(60_000 * scale))
        yield from _asynchronous(path, int(60_000 * scale), apache)
        yield from _group_commit(path, int(30_000 * scale))


def _small_runs(path: Path, count: int) -> Iterator[Figure]:
    """Measure the processor time per message of calls with few messages and with a client's batches."""
    batches: dict[str, tuple[int, list[Message | MessageBatch]]] = {
        **{f"{number} messages a call": (number, [_MESSAGE] * number) for number in (1, 8, 32, 128)},
        **{f"{number} batches of 32 a call": (number * _BATCH_SIZE, [client_batch()] * number) for number in (1, 4)},
    }
    runs: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for label, (messages, requests) in batches.items():
            shutil.rmtree(path, ignore_errors=True)
            with MessageStore.open(path, StoreConfig(mapped_file_size_commit_log=256 << 20)) as store:
                for _ in range(20):
                    store.put_messages(requests)
                calls, began = max(count // messages, 1), time.process_time()
                for _ in range(calls):
                    store.put_messages(requests)
                seconds = time.process_time() - began
            runs.setdefault(label, []).append(seconds / (calls * messages) * 1e6)
    for label, found in runs.items():
        yield Figure(f"put_messages, {label}, 200 B ASYNC", "us CPU a message", tuple(found))


def _asynchronous(path: Path, count: int, apache: ApacheStore | None) -> Iterator[Figure]:
    """Measure ASYNC_FLUSH puts of 200 B by 1 and 4 threads: single, async, batches of 32, and Apache's putMessage."""
    batches = [client_batch() for _ in range(64)]
    runs: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for threads in (1, 4):
            each = count // threads
            for label, messages, work in (
                ("put_message", each, _one_by_one),
                ("put_message_async", each, _in_flight(lambda _: _MESSAGE, 1)),
                ("put_message_async, batches of 32", each * 8, _in_flight(lambda at: batches[at % 64], _BATCH_SIZE)),
            ):
                rate, _ = _measure(path, FlushDiskType.ASYNC_FLUSH, threads, messages, work)
                runs.setdefault(f"{label}, {threads} threads", []).append(rate / 1e6)
            if apache is not None:
                rate = apache.append_rate(threads, count * 8, len(_BODY))
                runs.setdefault(f"Apache {VERSION} putMessage until dispatched, {threads} threads", []).append(rate)
    figures = {label: Figure(f"{label}, 200 B ASYNC", "M msg/s", tuple(found)) for label, found in runs.items()}
    yield from figures.values()
    for threads in (1, 4):
        peer = figures.get(f"Apache {VERSION} putMessage until dispatched, {threads} threads")
        if peer is not None:
            for label in ("put_message", "put_message_async", "put_message_async, batches of 32"):
                yield ratio(figures[f"{label}, {threads} threads"], peer)


def _group_commit(path: Path, count: int) -> Iterator[Figure]:
    """Measure SYNC_FLUSH puts of 200 B by different numbers of writers.

    The writers are 1, 8 and 64 that wait for each message, one that keeps futures in flight, and 64 threads without a
    store. They run on this machine's disk, and with every sync slowed to at least `_SLOW_SYNC_S`, because the gain of
    sharing a sync depends on its cost.
    """
    runs: dict[tuple[str, str], list[float]] = {}
    for _ in range(RUNS):
        for disk_label, least_s in (("this disk", 0.0), (f"syncs of {_SLOW_SYNC_S * 1e3:g} ms", _SLOW_SYNC_S)):
            for label, threads, messages, work in (
                ("one writer", 1, count // (300 if least_s else 30), _one_by_one),
                ("8 writers", 8, count // (240 if least_s else 24), _one_by_one),
                ("64 writers", 64, count // 64, _one_by_one),
                ("one writer, futures", 1, count, _in_flight(lambda _: _MESSAGE, 1)),
            ):
                with _slowed(least_s):
                    rate, latencies_ms = _measure(path, FlushDiskType.SYNC_FLUSH, threads, messages, work)
                runs.setdefault((disk_label, label), []).append(rate / 1e3)
                for name, share in (("p50", 50), ("p99", 99)):
                    of_share = float(np.percentile(latencies_ms, share))
                    runs.setdefault((disk_label, f"{label}, {name}"), []).append(of_share)
            with _slowed(least_s):
                rate = _handed_over(path, 64, count // 64)
            runs.setdefault((disk_label, _BARE), []).append(rate / 1e3)
    figures = {
        (disk_label, label): Figure(
            f"put 200 B SYNC, {disk_label}, {label}", "ms" if ", p" in label else "k msg/s", tuple(found)
        )
        for (disk_label, label), found in runs.items()
    }
    yield from figures.values()
    for disk_label, label in figures:
        if label in ("8 writers", "64 writers", _BARE, "one writer, futures"):
            yield ratio(figures[disk_label, label], figures[disk_label, "one writer"])


@contextmanager
def _slowed(least_s: float) -> Iterator[None]:
    """Slow every sync of a file to at least `least_s` seconds."""
    real = disk.fdatasync

    def fdatasync(fd: int) -> None:
        until = time.perf_counter() + least_s
        real(fd)
        time.sleep(max(until - time.perf_counter(), 0))

    if least_s:
        disk.fdatasync = fdatasync  # type: ignore[assignment]
    try:
        yield
    finally:
        disk.fdatasync = real


def client_batch() -> MessageBatch:
    """Return a batch as a client sends it: each message has its own UNIQ_KEY."""
    entries = [
        BatchEntry(0, _BODY, f"KEYS\x01k\x02UNIQ_KEY\x01{UNIQ_KEYS.next()}\x02WAIT\x01true\x02TAGS\x01a\x02".encode())
        for _ in range(_BATCH_SIZE)
    ]
    return MessageBatch("t", encode_batch_body(entries), {"CLUSTER": "c"})


def _one_by_one(store: MessageStore, count: int, latencies: list[float]) -> None:
    clock = time.perf_counter
    for _ in range(count):
        began = clock()
        store.put_message(_MESSAGE)
        latencies.append(clock() - began)


def _handed_over(path: Path, threads: int, each: int) -> float:
    """Return the requests a second of threads that hand bytes to one thread, which writes and syncs them.

    This is a group commit without encoding, offsets or dispatch: no store with such writers can be faster.
    """
    waiting: deque[threading.Lock] = deque()
    work = threading.Semaphore(0)

    def hand_over() -> None:
        synced = threading.Lock()
        synced.acquire()
        for _ in range(each):
            waiting.append(synced)
            work.release()
            synced.acquire()

    with path.with_name("handed-over").open("wb", buffering=0) as file:
        workers = [threading.Thread(target=hand_over) for _ in range(threads)]
        began = time.perf_counter()
        for one in workers:
            one.start()
        left = threads * each
        while left:
            work.acquire()
            group = [waiting.popleft() for _ in range(len(waiting))]
            if group:
                file.write(_BODY * len(group))
                disk.fdatasync(file.fileno())
            for synced in group:
                synced.release()
            left -= len(group)
        for one in workers:
            one.join()
        return threads * each / (time.perf_counter() - began)


def _in_flight(request: Callable[[int], Any], messages: int) -> Callable[[MessageStore, int, list[float]], None]:
    def work(store: MessageStore, count: int, latencies: list[float]) -> None:
        clock = time.perf_counter
        waiting: deque[tuple[float, Any]] = deque()
        for number in range(count // messages):
            waiting.append((clock(), store.put_message_async(request(number))))
            if len(waiting) * messages >= _IN_FLIGHT:
                began, future = waiting.popleft()
                future.result()
                latencies.append(clock() - began)
        for began, future in waiting:
            assert future.result().stored
            latencies.append(clock() - began)

    return work


def _measure(
    path: Path,
    kind: FlushDiskType,
    threads: int,
    each: int,
    work: Callable[[MessageStore, int, list[float]], None],
) -> tuple[float, np.ndarray]:
    """Return (messages a second until dispatched, time of each put in ms)."""
    shutil.rmtree(path, ignore_errors=True)
    with MessageStore.open(path, StoreConfig(flush_disk_type=kind, mapped_file_size_commit_log=256 << 20)) as store:
        store.put_message(_MESSAGE)
        latencies: list[list[float]] = [[] for _ in range(threads)]
        workers = [threading.Thread(target=work, args=(store, each, mine)) for mine in latencies]
        began = time.perf_counter()
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        seconds = time.perf_counter() - began
    return threads * each / seconds, np.array([one for mine in latencies for one in mine]) * 1e3
