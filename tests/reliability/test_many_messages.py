"""Row S26: a million messages, a kill, a start. Times and memory are reported with the figures, without a limit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import StoreReader
from tests.support.checker import findings
from tests.support.results import Tally, measured
from tests.support.trials import LEVEL, environment, seeds

pytestmark = pytest.mark.slow

MESSAGES = 100_000 if LEVEL == "sample" else 1_000_000
QUEUES = 4
WRITER = """
import os, sys, pyarrow as pa
from rocketflow_store import MessageStore
from tests.support.memory import rss_anon_mib
peak = 0.0
with MessageStore.open(sys.argv[1]) as store:
    total, at = int(sys.argv[2]), 0
    store.create_topic("t", 4)
    while at < total:
        count = min(50_000, total - at)
        bodies = pa.array([b"%012d" % n + bytes(188) for n in range(at, at + count)])
        store.append_batch(pa.record_batch({"body": bodies}), "t")
        at += count
        peak = max(peak, rss_anon_mib())
    os.write(1, b"%f\\n" % peak)
    sys.stdin.read()
"""
STARTER = """
import json, os, sys, threading
from rocketflow_store import Message, MessageStore
from tests.support.memory import rss_anon_mib
descriptors = set(os.listdir("/proc/self/fd"))
with MessageStore.open(sys.argv[1]) as store:
    result = store.put_message(Message("t", b"first", queue_id=0))
    os.write(1, b"acked\\n")
    with store.get_message("t", 0, result.queue_offset) as got:
        assert [one.body for one in got.messages] == [b"first"]
    os.write(1, b"read\\n")
    recovery, peak = store.recovery, rss_anon_mib()
    ends = [store.bounds("t", queue)[1] for queue in range(4)]
print(json.dumps({
    "abortFound": recovery.abort_found, "looked": recovery.truncated_to - recovery.scanned_from, "peak": peak,
    "log": result.physical_offset, "threads": threading.active_count() - 1, "ends": ends,
    "descriptors": len(set(os.listdir("/proc/self/fd")) - descriptors),
}))
"""


def test_many_messages_and_a_kill(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S26")
    for seed in seeds(1, 5):
        store = tmp_path / str(seed)
        writer_peak = write_and_kill(store)
        began = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", STARTER, str(store)], stdout=subprocess.PIPE, text=True, env=environment()
        ) as starter:
            assert starter.stdout is not None
            assert starter.stdout.readline() == "acked\n"
            first_ack = time.monotonic() - began
            assert starter.stdout.readline() == "read\n"
            first_read = time.monotonic() - began
            result = json.loads(starter.stdout.read())
        assert result["abortFound"]
        assert (result["threads"], result["descriptors"]) == (0, 0), "left when the store was closed"
        assert sum(result["ends"]) == MESSAGES + 1
        assert everything_in(store, result["ends"]) == set(range(MESSAGES))
        assert findings(store) == []
        measured(
            "start",
            messages=[MESSAGES],
            firstAckS=[round(first_ack, 3)],
            firstReadS=[round(first_read, 3)],
            dirtyMiB=[round(result["looked"] / (1 << 20), 1)],
            logGiB=[round(result["log"] / (1 << 30), 3)],
        )
        measured(
            "memory",
            rssAnonMiB=[round(max(writer_peak, result["peak"]), 1)],
            descriptorsLeft=[result["descriptors"]],
            threadsLeft=[result["threads"]],
        )
        counts.trial(None, f"seed {seed}")


def write_and_kill(store: Path) -> float:
    """Run a writer and kill it after its last message; return its highest RssAnon in MiB."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(store), str(MESSAGES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as child:
        assert child.stdout is not None
        peak = float(child.stdout.readline())
        child.kill()
    return peak


def everything_in(store: Path, ends: list[int]) -> set[int]:
    """Return the numbers of all messages that were put before the kill; check that each is there once."""
    seen: list[int] = []
    with StoreReader(store) as reader:
        for queue in range(QUEUES):
            for batch in reader.read("t", queue, 0, ends[queue], ["body"]):
                seen += (int(one[:12]) for one in batch.column(0).to_pylist() if one != b"first")
    assert len(seen) == len(set(seen))
    return set(seen)
