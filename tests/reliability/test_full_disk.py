"""Rows S15 and S16: no space, limited file sizes, short writes: puts are refused, reads work, no restart is needed."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.reliability.power import Run
from tests.reliability.test_kills import acknowledged, command, points_of, recovered, under_strace
from tests.support.checker import check
from tests.support.disk_calls import needs_strace
from tests.support.disk_layer import GROWS, Call, Failing
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import FULL, LEVEL, SEED, environment, sampled

pytestmark = pytest.mark.slow

STEPS = 30
BALLAST = (3 << 20, (3 << 20) + 4096 * 61) if FULL else (3 << 20 if LEVEL == "fast" else 11 << 19,)
"""Sizes of the file that is deleted when the file system of 8 MiB is full."""


def grows(call: Call) -> bool:
    """Return whether a call may need disk space; opening an existing file does not."""
    return call.kind != "open_file" or call.creates()


def trial(directory: Path, flush: str, failing: Failing, counts: Tally, context: str) -> None:
    """Run with a failing call; then remove the cause, and check that the same store accepts messages again."""
    (directory / "live").mkdir(parents=True)
    with SimulatedDisk(directory / "live") as disk, failing:
        run = Run(disk, flush, random.Random(SEED), lambda _: False, tolerant=True)

        def afterwards(store: MessageStore) -> None:
            for ack in run.acks:
                assert store.look_message_by_offset(ack.phy_offset) is not None, f"{context}: {ack} cannot be read"
            failing.lift()
            before = len(run.acks)
            run.put_some(3)
            assert len(run.acks) == before + 3, f"{context}: does not accept messages again: {store.statistics()}"

        run.before_close = afterwards
        run.go(STEPS)
        if run.store is None:
            failing.lift()
            run.go(STEPS)
    counts.trial(run.verdict(), context, hit=bool(failing.hits))
    shutil.rmtree(directory)


@pytest.mark.parametrize("flush", ["sync", "async"])
@pytest.mark.parametrize("how", ["once", "from then on", "short"])
def test_each_call_finds_the_disk_full(tmp_path: Path, how: str, flush: str, tally: Callable[..., Tally]) -> None:
    counts = tally("S15" if how != "short" else "S16", f"{flush}, {how}")
    probe = Failing(GROWS, 0, where=grows)
    trial(tmp_path / "probe", flush, probe, Tally("probe"), "probe")
    assert probe.seen > 3 * STEPS
    every = 1 if FULL else 7 if LEVEL == "fast" else 23
    for nth in range(1 + SEED % every, probe.seen + 1, every):
        kinds = GROWS if how != "short" else ("write", "pwrite")
        failing = Failing(kinds, nth, errno.ENOSPC, on=how == "from then on", short=how == "short", where=grows)
        trial(tmp_path / "trial", flush, failing, counts, f"seed {SEED}, call {nth}, {how}, {flush}")
    assert counts.hits > counts.trials // 2


@needs_strace
@pytest.mark.parametrize("flush", sampled(["sync", "async"], 2))
def test_a_process_finds_the_disk_full(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """S15 with a real process and real calls: it reports the error, lives on, and loses no acknowledged message."""
    counts = tally("S15", f"{flush}, strace")
    count = 40
    points = [one for one in points_of(tmp_path, flush, count) if one.call in ("fallocate", "pwrite64", "rename")]
    chosen = points if FULL else random.Random(SEED).sample(points, 4 if LEVEL == "fast" else 2)
    for point in chosen:
        store = tmp_path / "counted"
        shutil.rmtree(store, ignore_errors=True)
        inject = ["-e", f"trace={point.call}", "-e", f"inject={point.call}:error=ENOSPC:when={point.nth}+"]
        done = under_strace(["-o", "/dev/null", *inject], command(store, flush, 0, count))
        context = f"seed {SEED}, {point}"
        assert done.returncode >= 0, f"{context}: killed by signal {-done.returncode}"
        acked = acknowledged(done.stdout)
        verdict = None
        if (store / "consumequeue" / "t").is_dir():
            verdict = recovered(store, acked, set(range(count)))
        counts.trial(verdict, context)


def run_filling(store: Path, *arguments: str) -> tuple[dict[int, tuple[int, int]], set[int], str]:
    """Run `filling.py`; return the acknowledged messages, the refused ones, and the whole output."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "tests.reliability.filling", str(store), *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    refused = {int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("refused ")}
    return acknowledged(done.stdout), refused, done.stdout


@pytest.mark.parametrize("flush", sampled(["async", "sync"], 2))
def test_a_small_file_system(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """S15: a file system of 8 MiB is filled to its last block, and then another file on it is deleted."""
    counts = tally("S15", f"{flush}, tmpfs")
    mounted = tmp_path / "small"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(mounted)], check=False).returncode:
        pytest.skip("cannot mount a file system here")
    try:
        for number, ballast in enumerate(BALLAST):
            (mounted / "ballast").write_bytes(b"x" * ballast)
            store = mounted / f"s{number}"
            acked, refused, said = run_filling(store, flush, "delete", str(mounted / "ballast"))
            assert refused, said[-500:]
            assert "again" in said, said[-500:]
            verdict = check(store, acked, set(acked) | set(range(max(acked) + 2)), refused=refused)
            counts.trial(verdict, f"ballast {ballast}")
            shutil.rmtree(store)
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.mark.parametrize("flush", sampled(["sync", "async"], 2))
def test_a_limit_on_the_size_of_files(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """S16: RLIMIT_FSIZE below the size of the next file; the limit is raised, and puts go on."""
    counts = tally("S16", f"{flush}, RLIMIT_FSIZE")
    for limit in (1 << 15, 1 << 17, (1 << 18) - 1) if FULL else (1 << 17,):
        store = tmp_path / f"s{limit}"
        acked, refused, said = run_filling(store, flush, "limit", str(limit))
        assert "again" in said, said[-500:]
        verdict = check(store, acked, set(range(max([*acked, *refused]) + 2)), refused=refused)
        counts.trial(verdict, f"limit {limit}", hit=bool(refused))
    assert counts.hits
