"""Processor time of a message in the store's calls for a broker, beside the calls for users, in turn in one run."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rocketflow_store import Message, StoreConfig, WouldBlockError
from rocketflow_store.format.batch_body import BatchEntry, encode_batch_body
from rocketflow_store.format.properties import encode_properties
from rocketflow_store.model.message import MessageBatch
from rocketflow_store.model.message_id import UNIQ_KEYS
from rocketflow_store.spi.broker import Match, RawMessage, WritingStore, open_store
from tests.bench.figures import Figure, ratio

RUNS: Final = 5
_HOST: Final = "127.0.0.1:10911"
_PEER: Final = bytes([127, 0, 0, 1, 0, 0, 0x9C, 0x40])
_CONFIG: Final = StoreConfig(mapped_file_size_commit_log=256 << 20)
_BATCH: Final = 32
_BODY: Final = b"x" * 200
_PROPERTIES: Final = {"KEYS": "k", "WAIT": "true", "TAGS": "a", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
_READ_BODY: Final = b"y" * 1024
_QUEUES: Final = 4


def run(scale: float) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        yield from _puts(Path(home) / "s", int(30_000 * scale))
        yield from _reads(Path(home) / "r", int(40_000 * scale))


def _properties() -> dict[str, str]:
    return {**_PROPERTIES, "UNIQ_KEY": UNIQ_KEYS.next()}


def _puts(path: Path, count: int) -> Iterator[Figure]:
    raw = [RawMessage("t", n % 4, _BODY, encode_properties(_properties()), 0, 0, 1, _PEER) for n in range(256)]
    messages = [Message("t", _BODY, properties=_properties(), queue_id=n % 4, born_timestamp=1) for n in range(256)]
    body = encode_batch_body([BatchEntry(0, _BODY, encode_properties(_properties())) for _ in range(_BATCH)])
    raw_batch = RawMessage("t", 0, body, b"", 0, 0, 1, _PEER, is_batch=True)
    cases: dict[str, tuple[int, list[RawMessage], list[Message | MessageBatch]]] = {
        **{f"{number} singles": (number, raw[:number], list(messages[:number])) for number in (1, 8, 32, 256)},
        **{
            f"{number} batches of {_BATCH}": (
                number * _BATCH,
                [raw_batch] * number,
                [MessageBatch("t", body, queue_id=0, born_timestamp=1)] * number,
            )
            for number in (1, 2, 4, 8)
        },
    }
    runs: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for label, (size, requests, puts) in cases.items():
            for name, call in (
                ("append + publish", lambda store, one=requests: store.publish(store.append(one).end)),
                ("put_messages", lambda store, one=puts: store.put_messages(one)),
            ):
                shutil.rmtree(path, ignore_errors=True)
                with open_store(path, _CONFIG, store_host=_HOST) as store:
                    found = _seconds(call, store, max(count // size, 1)) / size * 1e6
                runs.setdefault(f"{name}, {label} a run", []).append(found)
    yield from _compared(runs, "200 B ASYNC", ("append + publish", "put_messages"), list(cases), " a run")


def _seconds(call: Callable[[WritingStore], object], store: WritingStore, calls: int) -> float:
    for _ in range(min(20, calls)):
        call(store)
    began = time.process_time()
    for _ in range(calls):
        call(store)
    return (time.process_time() - began) / calls


def _reads(path: Path, count: int) -> Iterator[Figure]:
    with open_store(path, _CONFIG, store_host=_HOST) as store:
        store.put_messages(
            Message("t", _READ_BODY, properties=_properties(), queue_id=n % _QUEUES) for n in range(count)
        )
        any_tag = Match(frozenset({97}))
        cases: dict[str, Callable[[int, int], int]] = {
            "read_messages": lambda queue, at: _read(store, queue, at, None),
            "read_messages by tag": lambda queue, at: _read(store, queue, at, any_tag),
            "get_message": lambda queue, at: _got(store, queue, at),
        }
        runs: dict[str, list[float]] = {}
        for _ in range(RUNS):
            for label, read in cases.items():
                read(0, 0)
                began, end = time.process_time(), store.bounds("t", 0)[1]
                for queue in range(_QUEUES):
                    at = 0
                    while at < end:
                        at = read(queue, at)
                runs.setdefault(label, []).append((time.process_time() - began) / (end * _QUEUES) * 1e6)
    figures = {
        label: Figure(f"{label}, 32 of 1 KiB", "us CPU a message", tuple(found)) for label, found in runs.items()
    }
    yield from figures.values()
    yield ratio(figures["read_messages"], figures["get_message"])


def _read(store: WritingStore, queue: int, at: int, match: Match | None) -> int:
    try:
        return store.read_messages("t", queue, at, 32, 4 << 20, match=match, nowait=True).next_offset
    except WouldBlockError:
        return store.read_messages("t", queue, at, 32, 4 << 20, match=match).next_offset


def _got(store: WritingStore, queue: int, at: int) -> int:
    with store.get_message("t", queue, at, 32) as result:
        b"".join(result.buffers())
        return result.next_begin_offset


def _compared(
    runs: dict[str, list[float]], what: str, names: tuple[str, str], labels: list[str], suffix: str
) -> Iterator[Figure]:
    for label in labels:
        figure, peer = (
            Figure(f"{name}, {label}{suffix}, {what}", "us CPU a message", tuple(runs[f"{name}, {label}{suffix}"]))
            for name in names
        )
        yield from (figure, peer, ratio(figure, peer))
