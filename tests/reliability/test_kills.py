"""Rows S01, S02 and S08: a writer killed at every disk call, and at random times; nothing acknowledged is lost."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.reliability.checker import check

ROOT = Path(__file__).parents[2]
CALLS = "msync,fdatasync,fsync,pwrite64,fallocate,ftruncate,rename,unlink"
FULL = os.environ.get("RF_FULL") == "1"
"""Full counts (`make test-full`) instead of samples."""
SEED = int(os.environ.get("RF_SEED", "20261121"))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "store")])}


def command(store: Path, flush: str, first: int, count: int) -> list[str]:
    return [sys.executable, "-m", "tests.reliability.workload", str(store), flush, str(first), str(count)]


def acknowledged(output: str) -> dict[int, tuple[int, int]]:
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            found[int(words[0])] = (int(words[1]), int(words[2]))
    return found


def recover_and_check(store: Path, acked: dict[int, tuple[int, int]], attempted: set[int], context: str) -> None:
    with MessageStore.open(store):
        pass
    verdict = check(store, acked, attempted)
    assert verdict.clean, (context, verdict)


needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


def calls_of(tmp_path: Path, flush: str, count: int) -> int:
    log = tmp_path / "strace.log"
    arguments = ["strace", "-f", "-o", str(log), "-e", f"trace={CALLS}"]
    done = subprocess.run(
        [*arguments, *command(tmp_path / "counted", flush, 0, count)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    if "closed" not in done.stdout:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
    return sum(1 for line in log.read_text().splitlines() if "(" in line and "resumed" not in line)


@needs_strace
@pytest.mark.slow
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_killed_at_a_disk_call(tmp_path: Path, flush: str) -> None:
    """S01: a sample of the sweep by default, every call in `make test-full`."""
    count = 40
    total = calls_of(tmp_path, flush, count)
    assert total > count
    rng = random.Random(SEED)
    points = range(1, total + 1) if FULL else sorted(rng.sample(range(1, total + 1), 16))
    killed = 0
    for point in points:
        store = tmp_path / f"s{point}"
        done = subprocess.run(
            [
                *("strace", "-f", "-o", "/dev/null", "-e", f"trace={CALLS}"),
                *("-e", f"inject={CALLS}:signal=SIGKILL:when={point}"),
                *command(store, flush, 0, count),
            ],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=120,
            check=False,
        )
        killed += "closed" not in done.stdout
        if not (store / "commitlog").is_dir():
            continue
        recover_and_check(store, acknowledged(done.stdout), set(range(count)), f"{flush}, call {point} of {total}")
        shutil.rmtree(store)
    assert killed >= len(points) // 2, "the kills did not happen"


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_killed_at_a_random_time_again_and_again(tmp_path: Path, flush: str) -> None:
    """S02: one store, killed and recovered many times; files roll all the while (S08)."""
    rng = random.Random(SEED)
    store = tmp_path / "s"
    acked: dict[int, tuple[int, int]] = {}
    attempted: set[int] = set()
    first = 0
    for trial in range(100 if FULL else 10):
        child = subprocess.Popen(
            command(store, flush, first, 100_000),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", child.stderr
        time.sleep(rng.uniform(0, 0.25))
        child.kill()
        output, _ = child.communicate()
        now = acknowledged(output)
        acked |= now
        highest = max([*now, first - 1]) + 1
        attempted |= set(range(first, highest + 1))
        first = highest + 1
        recover_and_check(store, acked, attempted, f"seed {SEED}, trial {trial}")
    assert len(acked) > 50
    print(f"S02 {flush}: {len(acked)} acknowledged, {trial + 1} kills, 0 lost")
