"""Latency of queries by key on 20 million index entries in four files: hits, with their records checked, and misses."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.files.mapped.mapped_file_queue import MappedFileQueue
from rocketflow_store.format.record import RecordFields, encode_record
from rocketflow_store.log.log_view import CommitLogView
from rocketflow_store.model.clock import SystemClock
from rocketflow_store.model.java_compat import index_hash, string_hash
from rocketflow_store.model.message import ReceivedMessage
from rocketflow_store.model.message_id import encode_host
from rocketflow_store.views.index.index_service import IndexService
from tests.bench.figures import Figure

_RUNS: Final = 3
_FILES: Final = 4
_ENTRIES: Final = 20_000_000
_SLOTS: Final = 5_000_000
_QUERIES: Final = 2_000
_RECORD_BYTES: Final = 200
_LOG_FILE_BYTES: Final = 1 << 30
_START_MS: Final = 1_700_000_000_000
_FOREVER: Final = (1 << 63) - 1
_HOST: Final = encode_host("127.0.0.1:10911")


def run(scale: float) -> Iterator[Figure]:
    count = int(_ENTRIES * scale)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        began = time.perf_counter()
        index = _index(Path(home) / "index", count, int(_SLOTS * scale))
        built = time.perf_counter() - began
        asked = np.random.default_rng(7).choice(count, _QUERIES, replace=False)
        log = CommitLogView(_log(Path(home) / "commitlog", asked.tolist(), count))
        assert len(index.files) == _FILES

        def look(phy_offset: int) -> ReceivedMessage | None:
            return log.message_at(phy_offset)

        def hit(number: int) -> bool:
            return len(index.query("t", _key(number), 32, 0, _FOREVER, look)) == 1

        def miss(number: int) -> bool:
            return index.query("t", f"missing-{number}", 32, 0, _FOREVER, lambda phy_offset: None) == []

        yield Figure(f"index build, {count / 1e6:g} M entries, {_FILES} files", "entries/s", (count / built,))
        for name, query in (("key", hit), ("missing key", miss)):
            _latencies_ms(query, asked)  # warm: the pages are in memory
            runs = [_latencies_ms(query, asked) for _ in range(_RUNS)]
            for percent in (50, 99, 99.9):
                figures = tuple(float(np.percentile(one, percent)) for one in runs)
                yield Figure(f"index query by {name}, {count / 1e6:g} M entries, p{percent:g}", "ms", figures)
        index.close()


def _latencies_ms(query: Callable[[int], bool], asked: np.ndarray) -> np.ndarray:
    clock = time.perf_counter
    found = np.empty(len(asked))
    for at, number in enumerate(asked.tolist()):
        began = clock()
        good = query(number)
        found[at] = clock() - began
        assert good, number
    return found * 1e3


def _key(number: int) -> str:
    return f"order-{number:08d}"


def _key_hashes(start: int, stop: int) -> np.ndarray:
    """Compute `index_hash("t", _key(n))` for every n: the digits follow a common prefix."""
    numbers = np.arange(start, stop, dtype=np.int64)
    hashes = np.full(len(numbers), string_hash("t#order-"), np.int64)
    for power in range(7, -1, -1):
        hashes = (hashes * 31 + 48 + numbers // 10**power % 10) & 0xFFFFFFFF
    signed = hashes.astype(np.uint32).view(np.int32)
    found: np.ndarray = np.where(signed == np.iinfo(np.int32).min, 0, np.abs(signed)).astype(np.int32)
    assert int(found[0]) == index_hash("t", _key(start))
    return found


def _index(directory: Path, count: int, slots: int) -> IndexService:
    index = IndexService(directory, slots, count // _FILES + 1, SystemClock(), write=True)
    block = 1 << 20
    for start in range(0, count, block):
        stop = min(start + block, count)
        numbers = np.arange(start, stop, dtype=np.int64)
        index.put(_key_hashes(start, stop), numbers * _RECORD_BYTES, _START_MS + numbers // 20)
    return index


def _log(directory: Path, asked: list[int], count: int) -> MappedFileQueue:
    """Write a sparse log with only the records that the queries read."""
    directory.mkdir()
    for begin in range(0, count * _RECORD_BYTES, _LOG_FILE_BYTES):
        with (directory / file_name(begin)).open("wb") as made:
            made.truncate(_LOG_FILE_BYTES)
    for number in asked:
        phy_offset = number * _RECORD_BYTES
        fields = RecordFields(
            topic=b"t",
            queue_id=0,
            body=b"b" * 20,
            properties=b"KEYS\x01" + _key(number).encode() + b"\x02",
            flag=0,
            sys_flag=0,
            born_timestamp=_START_MS,
            born_host=_HOST,
            store_host=_HOST,
        )
        record = encode_record(fields, phy_offset, number, _START_MS + number // 20, False)
        assert len(record) <= _RECORD_BYTES
        with (directory / file_name(phy_offset - phy_offset % _LOG_FILE_BYTES)).open("r+b") as written:
            written.seek(phy_offset % _LOG_FILE_BYTES)
            written.write(record)
    return MappedFileQueue(directory, _LOG_FILE_BYTES, write=False)
