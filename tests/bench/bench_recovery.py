"""Time of an open after an unclean stop, compared with Apache's store on the same directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rocketflow_store import MessageStore
from tests.bench.apache_store import VERSION, ApacheStore
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import lose_derived, rows
from tests.support.maven import JarsNotFetchedError

RUNS: Final = 3
_BATCH: Final = 100_000
_OPEN: Final = """
import sys, time
from rocketflow_store import MessageStore
began = time.perf_counter()
store = MessageStore.open(sys.argv[1])
print(time.perf_counter() - began, store.max_phy_offset, store.recovery.dispatched, flush=True)
import os
os._exit(0) if sys.argv[2:] == ["halt"] else store.close()
"""
_APPEND_AND_WAIT: Final = """
import sys
from rocketflow_store import MessageStore
from tests.support.bulk_rows import rows
store = MessageStore.open(sys.argv[1])
store.append_batch(rows(100_000, 1024), topic="t")
print("ready", flush=True)
sys.stdin.read()
"""


def run(scale: float) -> Iterator[Figure]:
    try:
        apache: ApacheStore | None = ApacheStore()
    except JarsNotFetchedError as error:
        apache = None
        print(f"without Apache's store: {error}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
        path = Path(home) / "s"
        count = _fill(path, int(1_000_000 * scale))
        yield from _all_derived_lost(path, count, apache)
        yield from _after_kill_and_clean_stop(path)


def _fill(path: Path, count: int) -> int:
    batch = rows(_BATCH, 1024)
    with MessageStore.open(path) as store:
        for _ in range(max(count // _BATCH, 1)):
            store.append_batch(batch, topic="t")
    return max(count // _BATCH, 1) * _BATCH


def _all_derived_lost(path: Path, count: int, apache: ApacheStore | None) -> Iterator[Figure]:
    """Open a store with only a log of unknown end: on two cores, on one, and by Apache's store, in turn."""
    runs: dict[str, list[float]] = {}
    for _ in range(RUNS):
        for cores in (2, 1):
            lose_derived(path)
            seconds, _, dispatched = _open(path, cores)
            assert dispatched >= count, dispatched
            runs.setdefault(f"{cores} cores", []).append(seconds)
        if apache is not None:
            lose_derived(path)
            runs.setdefault(f"Apache {VERSION}", []).append(apache.recovery_seconds(path)[0])
    figures = {
        label: Figure(f"{count:,} messages of 1 KiB, only the log is left, {label}", "s", tuple(found))
        for label, found in runs.items()
    }
    yield from figures.values()
    apache_figure = figures.get(f"Apache {VERSION}")
    if apache_figure is not None:
        for label in ("2 cores", "1 cores"):
            yield ratio(apache_figure, figures[label])
    lose_derived(path)
    _open(path, 2)


def _after_kill_and_clean_stop(path: Path) -> Iterator[Figure]:
    killed, clean = [], []
    for _ in range(RUNS):
        writer = subprocess.Popen(
            [sys.executable, "-c", _APPEND_AND_WAIT, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        killed.append(_open(path, 2)[0])
        clean.append(_open(path, 2)[0])
    size = sum(one.stat().st_size for one in (path / "commitlog").iterdir()) >> 30
    yield Figure(f"open {size} GiB after a kill with 100,000 unsynced messages", "s", tuple(killed))
    yield Figure(f"open {size} GiB after a clean stop", "s", tuple(clean))


def _open(path: Path, cores: int) -> tuple[float, int, int]:
    """Open a store in a child process; return (seconds, end of the log, messages dispatched)."""
    mine = sorted(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, mine[:cores]),
    )
    seconds, end, dispatched = done.stdout.split()
    return float(seconds), int(end), int(dispatched)
