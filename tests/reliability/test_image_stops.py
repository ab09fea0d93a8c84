"""Rows S21 and S27: clocks that jump, signals that ask for a stop."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from rocketflow_store import FlushDiskType, Message, MessageStore, StoreConfig, StoreReader
from rocketflow_store.model.clock import ManualClock
from tests.reliability.power import config
from tests.reliability.test_kills import acknowledged, command, recovered
from tests.support.checker import Place, check
from tests.support.disk_layer import Interrupting
from tests.support.results import Tally
from tests.support.shifted_clock import SITE, store_timestamps
from tests.support.trials import COMMAND_LINE, LEVEL, SEED, environment, sampled, seeds
from tests.support.workload import SMALL, body

pytestmark = pytest.mark.slow

HOUR_MS = 3_600_000


def test_a_clock_that_jumps(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """S21, through the Clock seam: within a run and between runs."""
    counts = tally("S21", "seam")
    for seed in seeds(8, 40):
        rng = random.Random(seed)
        store, clock = tmp_path / str(seed), ManualClock(1_800_000_000_000)
        config = StoreConfig(clock=clock, flush_disk_type=FlushDiskType.SYNC_FLUSH, **SMALL)  # type: ignore[arg-type]
        acked: dict[int, Place] = {}
        for _ in range(4):
            clock.set(clock.now_ms() + rng.choice([-HOUR_MS, 24 * HOUR_MS, -24 * HOUR_MS, 1000]))
            with MessageStore.open(store, config) as opened:
                for _ in range(30):
                    number = len(acked)
                    result = opened.put_message(Message("t", body(number), keys=[f"k{number}"], queue_id=number % 2))
                    acked[number] = result.queue_id, result.queue_offset
                    if rng.random() < 0.2:
                        clock.set(clock.now_ms() + rng.choice([-HOUR_MS, 24 * HOUR_MS, 5]))
        times = store_timestamps(store)
        assert times == sorted(times), f"seed {seed}: store times fall"
        with StoreReader(store) as reader:
            for queue_id in (0, 1):
                low, high = reader.bounds("t", queue_id)
                for when, wanted in ((times[0] - 1, low), (times[-1] + 1, high)):
                    assert reader.get_offset_in_queue_by_time("t", queue_id, when) == wanted, f"seed {seed}"
            for number, place in acked.items():
                (one,) = reader.query_message("t", f"k{number}")
                assert (one.queue_id, one.queue_offset) == place, f"seed {seed}, {number}"
        counts.trial(check(store, acked, set(acked)), f"seed {seed}")


def test_a_machine_whose_clock_jumps(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """S21, with the machine's clock wrapped in another process, which is killed."""
    counts = tally("S21", "process")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(SITE)
    offset = tmp_path / "clock"
    offset.write_text("0")
    for seed in seeds(2, 20):
        rng = random.Random(seed)
        store = tmp_path / str(seed)
        acked: dict[int, Place] = {}
        attempted: set[int] = set()
        first = 0
        for _ in range(3):
            env = environment(RF_CLOCK=str(offset))
            env["PYTHONPATH"] = os.pathsep.join([str(site), env["PYTHONPATH"]])
            with subprocess.Popen(
                command(store, "sync", first, 300), stdout=subprocess.PIPE, text=True, env=env
            ) as child:
                assert child.stdout is not None
                output = ""
                for _ in range(rng.randrange(20, 60)):
                    output += child.stdout.readline()
                offset.write_text(str(rng.choice([-3600, 86_400, 0])))
                for _ in range(rng.randrange(20, 60)):
                    output += child.stdout.readline()
                child.kill()
                output += child.stdout.read()
            acked |= acknowledged(output)
            highest = max([*acked, first - 1]) + 1
            attempted |= set(range(first, highest + 1))
            first = highest + 1
            counts.trial(recovered(store, acked, attempted), f"seed {seed}")
        times = store_timestamps(store)
        assert times == sorted(times), f"seed {seed}: store times fall"


STOPS = {
    "SIGTERM": [signal.SIGTERM],
    "SIGINT": [signal.SIGINT],
    "SIGHUP": [signal.SIGHUP],
    "SIGTERM twice": [signal.SIGTERM, signal.SIGTERM],
    "SIGINT, SIGTERM": [signal.SIGINT, signal.SIGTERM],
}


def fed(child: subprocess.Popen[bytes], lines: int) -> threading.Thread:
    """Write lines to the process's standard input, in a thread, until it ends."""

    def feed() -> None:
        assert child.stdin is not None
        try:
            for number in range(lines):
                child.stdin.write(json.dumps({"body": body(number).decode("latin-1"), "queueId": 0}).encode() + b"\n")
            child.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass
        finally:
            with suppress(BrokenPipeError):
                child.stdin.close()

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("name", "phase"), sampled([(name, one) for one in ("writing", "loading") for name in STOPS], 2)
)
def test_a_command_that_is_asked_to_stop(tmp_path: Path, name: str, phase: str, tally: Callable[..., Tally]) -> None:
    """S27: `store append` stops in order; the file `abort` stays exactly if the stop was not orderly."""
    counts = tally("S27", name)
    for seed in seeds(2, 10):
        rng = random.Random(seed)
        store, outcome = tmp_path / f"s{seed}", tmp_path / "out"
        with MessageStore.open(store, StoreConfig(**SMALL)) as made:  # type: ignore[arg-type]
            made.create_topic("t", 2)
        with outcome.open("wb") as out:
            child = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    COMMAND_LINE,
                    "store",
                    "append",
                    str(store),
                    "--topic",
                    "t",
                    "--create",
                    "--input",
                    "-",
                ],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.PIPE,
                env=environment(),
            )
            feeding = fed(child, 100_000)
            if phase == "loading":
                time.sleep(rng.uniform(0.2, 0.6))  # the random time is the fault here
            else:
                while outcome.stat().st_size < 2000:  # until it writes
                    assert child.poll() is None
                    time.sleep(0.005)
            for one in STOPS[name]:
                child.send_signal(one)
            assert child.stderr is not None
            with child.stderr as said:
                error = said.read().decode()
            code = child.wait(60)
            feeding.join(60)
        assert "Traceback" not in error
        acked = sum(1 for line in outcome.read_bytes().splitlines() if line.strip())
        context = f"seed {seed}, {name}, exit {code}, {acked} lines"
        # two signals may reach two threads: either may be handled first
        assert code in (0, *(one for number in STOPS[name] for one in (128 + number, -number))), context
        clean = not (store / "abort").exists()
        if phase == "writing":
            assert clean, context
            assert code in [128 + number for number in STOPS[name]], context
        with MessageStore.open(store) as opened:
            assert opened.recovery.abort_found != clean, context
            if clean:
                assert opened.recovery.dispatched == 0, context
                assert opened.recovery.quarantined == [], context
            there = opened.bounds("t", 0)[1]
        places = {number: (0, number) for number in range(min(acked, there))}
        assert there >= acked, context
        counts.trial(check(store, places, set(range(there))), context)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_signal_after_each_disk_call(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """S27: a put over several files is interrupted, the store is closed in order, and opens again."""
    counts = tally("S27", f"behind a disk call, {flush}")
    step = 8 if LEVEL == "sample" else 1
    nth = 1 + SEED % step
    while True:
        store = tmp_path / str(nth)
        with MessageStore.open(store, config(flush)) as opened:
            opened.create_topic("t", 2)
            acked = put(opened, range(20))
            with Interrupting(nth) as signals, suppress(KeyboardInterrupt):
                acked |= put(opened, range(20, 220))
        counts.trial(recovered(store, acked, set(range(220))), f"call {nth}", hit=signals.hit)
        shutil.rmtree(store)
        if not signals.hit:
            break
        nth += step
    assert counts.hits > 10 // step


def put(store: MessageStore, numbers: range) -> dict[int, Place]:
    """Put the messages as one batch; return their places."""
    results = store.put_messages([Message("t", body(one), keys=[f"k{one}"], queue_id=one % 2) for one in numbers])
    return {number: (one.queue_id, one.queue_offset) for number, one in zip(numbers, results, strict=True)}
