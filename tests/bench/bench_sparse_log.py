"""Memory of a writer with a log of 100 GiB, and the time to open it.

The log files are sparse: every file holds one record and its end mark, and takes almost no space on the disk.
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

from rocketflow_store import Message, MessageStore, StoreConfig
from rocketflow_store.files.mapped.mapped_file import file_name
from rocketflow_store.format.record import RecordFields, encode_blank, encode_record
from rocketflow_store.model.message_id import encode_host
from tests.bench.figures import Figure
from tests.support.bulk_rows import rows
from tests.support.memory import rss_anon_mib

_FILES: Final = 100
_FILE_BYTES: Final = 1 << 30
_START_MS: Final = 1_700_000_000_000
_PUTS: Final = 20_000
_BATCHES: Final = 10
_ROWS: Final = 50_000
_BODY: Final = 200
_HOST: Final = encode_host("127.0.0.1:10911")
_UNITS: Final = {"opened after a clean stop": "s", "put_message 200 B": "msg/s", "append_batch 200 B": "msg/s"}


def run(scale: float) -> Iterator[Figure]:
    files = max(int(_FILES * scale), 1)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        path = Path(home) / "s"
        _make_log(path, files)
        with MessageStore.open(path) as store:
            assert store.max_offset("t", 0) == files
        command = [sys.executable, "-m", "tests.bench.bench_sparse_log", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    for name, value in json.loads(done.stdout).items():
        yield Figure(f"{files} GiB of log: {name}", _UNITS.get(name, "MiB"), (value,))


def _make_log(path: Path, files: int) -> None:
    (path / "commitlog").mkdir(parents=True)
    for number in range(files):
        begin = number * _FILE_BYTES
        fields = RecordFields(
            topic=b"t",
            queue_id=0,
            body=b"b" * _BODY,
            properties=b"KEYS\x01k\x02",
            flag=0,
            sys_flag=0,
            born_timestamp=_START_MS,
            born_host=_HOST,
            store_host=_HOST,
        )
        record = encode_record(fields, begin, number, _START_MS + number, False)
        with (path / "commitlog" / file_name(begin)).open("wb") as made:
            made.truncate(_FILE_BYTES)
            made.write(record + encode_blank(_FILE_BYTES - len(record)))


def _writer(path: Path) -> dict[str, float]:
    """Open, append to and read the store in this process; return the times, rates and memory."""
    clock, figures = time.perf_counter, {}
    batch = rows(_ROWS, _BODY)
    figures["RssAnon before the store is opened"] = rss_anon_mib()
    began = clock()
    with MessageStore.open(path, StoreConfig()) as store:
        figures["opened after a clean stop"] = clock() - began
        figures["RssAnon once it is open"] = rss_anon_mib()
        message = Message("t", b"x" * _BODY, keys=["k"], queue_id=0)
        began = clock()
        for _ in range(_PUTS):
            store.put_message(message)
        figures["put_message 200 B"] = _PUTS / (clock() - began)
        began = clock()
        for _ in range(_BATCHES):
            store.append_batch(batch, topic="t")
        figures["append_batch 200 B"] = _BATCHES * _ROWS / (clock() - began)
        low, high = store.bounds("t", 0)
        for offset in range(low, high, max((high - low) // 1000, 1)):
            store.get_message("t", 0, offset)
        figures["RssAnon after appends and reads"] = rss_anon_mib()
    return figures


if __name__ == "__main__":
    print(json.dumps(_writer(Path(sys.argv[1]))))
