"""Rows S01, S02 and S08: a writer killed at every disk call, and at random times; nothing acknowledged is lost."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.support.checker import Place, Verdict, check
from tests.support.disk_calls import CALLS, KillPoint, kill_points, needs_strace, spread
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, environment, seeds, some

pytestmark = pytest.mark.slow

KILLS_A_STORE = 10 if LEVEL != "sample" else 4
ROLLED = 150
"""Number of messages that need more than one file of the log."""


def command(store: Path, flush: str, first: int, count: int) -> list[str]:
    return [sys.executable, "-B", "-m", "tests.support.workload", str(store), flush, str(first), str(count)]


def acknowledged(output: str) -> dict[int, Place]:
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) == 3 and all(word.isdigit() for word in words):
            found[int(words[0])] = (int(words[1]), int(words[2]))
    return found


def recovered(store: Path, acked: dict[int, Place], attempted: set[int]) -> Verdict:
    with MessageStore.open(store):
        pass
    return check(store, acked, attempted)


def under_strace(arguments: list[str], workload: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["strace", "-f", *arguments, *workload],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )


def points_of(directory: Path, flush: str, count: int) -> list[KillPoint]:
    log, store = directory / "strace.log", directory / "counted"
    done = under_strace(["-o", str(log), "-s", "512", "-e", f"trace={CALLS}"], command(store, flush, 0, count))
    if "closed" not in done.stdout:
        pytest.skip(f"strace cannot trace here: {done.stderr[-200:]}")
    return kill_points(log, directory)


@needs_strace
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_killed_at_a_disk_call(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """S01: a sample of the sweep by default, every call in `make test-full`."""
    counts = tally("S01", flush)
    count = 200 if FULL else 40
    points = points_of(tmp_path, flush, count)
    assert len(points) > count
    for point in points if FULL else spread(points, some(16), SEED):
        store = tmp_path / "counted"  # the same path as in the measured run
        shutil.rmtree(store)
        done = under_strace(["-o", "/dev/null", *point.arguments()], command(store, flush, 0, count))
        acked = acknowledged(done.stdout)
        context = f"seed {SEED}, {point} of {len(points)} points"
        verdict = None
        if (store / "consumequeue" / "t").is_dir():
            verdict = recovered(store, acked, set(range(count)))
        else:
            assert not acked, context
        store.mkdir(exist_ok=True)
        counts.trial(verdict, context, hit="closed" not in done.stdout)
    counts.assert_happened()


def killed(rng: random.Random, workload: list[str], *, timed: float = 0.5, acks: int = 1) -> str:
    """Run a writer and kill it at a random time after its start, or after a random ack; return its output.

    On a busy machine the time may be over before the writer has begun: if it must have, `timed` must be 0.
    """
    with subprocess.Popen(workload, stdout=subprocess.PIPE, text=True, env=environment()) as child:
        assert child.stdout is not None
        output = ""
        if rng.random() < timed:
            time.sleep(rng.uniform(0.1, 0.8 if FULL else 0.35))
        else:
            for _ in range(rng.randrange(acks, acks + 250)):
                output += child.stdout.readline()
        child.kill()
        return output + child.stdout.read()


def test_killed_at_a_random_time_again_and_again(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """S02: stores are killed and recovered many times while files roll (S08)."""
    counts = {flush: tally("S02", flush) for flush in ("sync", "async")}
    acks, stores = 0, seeds(6, 50, least=2)
    for seed in stores:
        rng = random.Random(seed)
        flush = ("sync", "async")[seed % 2]
        store = tmp_path / "s"
        acked: dict[int, Place] = {}
        attempted: set[int] = set()
        first = 0
        for trial in range(KILLS_A_STORE):
            how = {} if trial else {"timed": 0.0, "acks": ROLLED}
            now = acknowledged(killed(rng, command(store, flush, first, 100_000), **how))
            acked |= now
            highest = max([*now, first - 1]) + 1
            attempted |= set(range(first, highest + 1))
            first = highest + 1
            verdict = recovered(store, acked, attempted) if (store / "consumequeue" / "t").is_dir() else None
            counts[flush].trial(verdict, f"seed {seed}, kill {trial}")
        acks += len(acked)
        assert len(list((store / "commitlog").iterdir())) > 1, f"seed {seed}: no roll"
        shutil.rmtree(store)
    assert acks > 50 * len(stores)
