"""Rebuild of queues and index from a log, compared with Apache's store on the same directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rocketflow_store import MessageStore, StoreReader
from tests.bench.apache_store import VERSION, ApacheStore
from tests.bench.figures import Figure, ratio
from tests.support.bulk_rows import lose_derived, rows
from tests.support.maven import JarsNotFetchedError

RUNS: Final = 5
_BATCH: Final = 100_000
_ROCKETFLOW: Final = "from rocketflow.cli import main; main()"
_MIB: Final = 1 << 20
_KINDS: Final = {
    "2 cores": (("--workers", "2"), 2),
    "1 core": (("--workers", "1"), 1),
    "Spark local[2]": (("--engine", "spark", "--workers", "2"), 2),
}
"""Options and processors of each kind."""


def run(scale: float) -> Iterator[Figure]:
    try:
        apache: ApacheStore | None = ApacheStore()
    except JarsNotFetchedError as error:
        apache = None
        print(f"without Apache's store: {error}", file=sys.stderr)
    for body_size, count in ((1024, 1_700_000), (200, 2_800_000)):
        with tempfile.TemporaryDirectory(prefix="rocketflow-bench-") as home:
            path = Path(home) / "s"
            yield from _rebuilds(path, body_size, _fill(path, int(count * scale), body_size), apache)


def _fill(path: Path, count: int, body_size: int) -> int:
    batch = rows(_BATCH, body_size)
    with MessageStore.open(path) as store:
        for _ in range(max(count // _BATCH, 1)):
            store.append_batch(batch, topic="t")
    return max(count // _BATCH, 1) * _BATCH


def _rebuilds(path: Path, body_size: int, count: int, apache: ApacheStore | None) -> Iterator[Figure]:
    """Rebuild a store with only a log: on two cores, on one, on Spark with two, and by Apache's store, in turn."""
    rates: dict[str, list[float]] = {}
    command_seconds: list[float] = []
    size = 0
    for _ in range(RUNS):
        for label, (arguments, cores) in _KINDS.items():
            lose_derived(path)
            began = time.perf_counter()
            report = _rebuild(path, arguments, cores)
            seconds = time.perf_counter() - began
            assert report["units"] == count, report
            assert report["indexEntries"] == 2 * count, report
            size = report["bytes"]
            rates.setdefault(label, []).append(report["mbPerSecond"])
            if label == "2 cores":
                command_seconds.append(seconds)
            elif label != "1 core":
                rates.setdefault(f"{label}, its start included", []).append(size / seconds / 1e6)
        if apache is not None:
            lose_derived(path)
            seconds, _ = apache.recovery_seconds(path)
            _check_complete(path, count)
            rates.setdefault(f"Apache {VERSION}", []).append(size / seconds / 1e6)
    what = f"rebuild {size / 1e9:.1f} GB of {body_size} B messages"
    figures = {label: Figure(f"{what}, {label}", "MB/s", tuple(found)) for label, found in rates.items()}
    yield from figures.values()
    yield Figure(f"{what}, 2 cores, the command as a whole", "s", tuple(command_seconds))
    for label in ("2 cores", "Spark local[2]"):
        lose_derived(path)
        most = _most_anonymous(path, *_KINDS[label])
        yield Figure(f"{what}, {label}, most RssAnon of a Python process", "MiB", (most / _MIB,))
    yield ratio(figures["2 cores"], figures["1 core"])
    apache_figure = figures.get(f"Apache {VERSION}")
    if apache_figure is not None:
        for label in ("2 cores", "1 core", "Spark local[2]"):
            yield ratio(figures[label], apache_figure)


def _check_complete(path: Path, count: int) -> None:
    """Assert that Apache's store wrote all units and index entries."""
    with StoreReader(path) as reader:
        units = sum(reader.find("t", queue).scan_end() for queue in reader.queues("t"))  # type: ignore[union-attr]
        entries = sum(one.entries for one in reader.index.files)
    assert units >= count, units
    assert entries >= 2 * count, entries


def _begin(path: Path, arguments: tuple[str, ...], cores: int) -> subprocess.Popen[bytes]:
    """Start a rebuild in a child process."""
    mine = sorted(os.sched_getaffinity(0))
    return subprocess.Popen(
        [sys.executable, "-c", _ROCKETFLOW, "store", "rebuild", str(path), "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, mine[:cores]),
    )


def _rebuild(path: Path, arguments: tuple[str, ...], cores: int) -> dict[str, Any]:
    """Run a rebuild and return its JSON report."""
    report: dict[str, Any] = json.loads(_begin(path, arguments, cores).communicate()[0])
    return report


def _most_anonymous(path: Path, arguments: tuple[str, ...], cores: int) -> int:
    """Return the largest anonymous memory of a process of an untimed rebuild; polling takes processor time."""
    process = _begin(path, arguments, cores)
    most = 0
    while process.poll() is None:
        mine = [process.pid, *_descendants(process.pid)]
        most = max([most, *(_anonymous(one) for one in mine if _is_python(one))])
        time.sleep(0.02)
    process.communicate()
    return most


def _descendants(pid: int) -> Iterator[int]:
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = [int(one) for one in thread.read_text().split()]
        except OSError:
            continue
        for child in found:
            yield child
            yield from _descendants(child)


def _is_python(pid: int) -> bool:
    """Return True if the process runs Python; a JVM's child has the JVM's program until its own starts."""
    try:
        return "python" in os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return False


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon")), 0)
