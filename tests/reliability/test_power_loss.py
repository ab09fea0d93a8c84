"""Row S06: power loss at random instants of a run; synced messages are there, and only a suffix is missing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rocketflow_store import StoreReader
from tests.reliability.power import POOL, Instant, Run, after_power_loss
from tests.support.independent_reader import log_records
from tests.support.phases import at_call
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import LEVEL, seeds

pytestmark = pytest.mark.slow

STEPS = 160
IMAGES = 15 if LEVEL != "sample" else 10
"""Power losses in one run."""
MANY_QUEUES = 30
"""Number of queues at which several are synced in parallel."""
COMMITS = at_call("pwrite", "commitlog")
SHARES = (0.1, 0.5, 0.9)


def run_of(directory: Path, seed: int, flush: str, queues: int = 2, **settings: Any) -> Run:
    """Run with about `IMAGES` frozen instants; with a store pool, half of them before a commit of its buffers."""
    rng = random.Random(seed)
    (directory / "live").mkdir(parents=True)
    with SimulatedDisk(directory / "live") as disk:
        chance = IMAGES / (STEPS * (7 if flush == "sync" else 4))
        often = 5 if settings else 1
        run = Run(disk, flush, rng, lambda call: rng.random() < chance * (often if COMMITS(call) else 1), settings)
        run.queues = queues
        run.go(STEPS)
    run.instants = run.instants[: 2 * IMAGES]
    return run


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_power_loss_after_a_kill(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """The process is killed, another one opens the store and goes on, and loses power: two faults on one disk."""
    counts = tally("S06", f"{flush}, killed before")
    for seed in seeds(6, 60):
        first = run_of(tmp_path / "run", seed, flush)
        killed_at = first.instants[first.rng.randrange(len(first.instants))]
        with killed_at.state.kill(tmp_path / "run" / "next") as disk:
            second = first.after_kill(disk, killed_at)
            second.go(STEPS // 4)
        for number, instant in enumerate(second.instants[:IMAGES]):
            image = tmp_path / "image"
            p = SHARES[number % len(SHARES)]
            instant.state.crash(image, seed, p)
            context = f"seed {seed}, image {number} (p={p}, before {instant.call.kind} {instant.call.path})"
            missing, _ = after_power_loss(image, instant, second, context)
            counts.trial(None, context, hit=bool(missing) or bool(instant.state.pending))
            shutil.rmtree(image)
        shutil.rmtree(tmp_path / "run")


RUNS = {
    "sync": ("sync", 2, (5, 67)),
    "async": ("async", 2, (5, 67)),
    "sync-many-queues": ("sync", MANY_QUEUES, (2, 20)),
    "async-many-queues": ("async", MANY_QUEUES, (3, 20)),
}
if LEVEL == "sample":  # queues are synced in parallel with either flush mode
    del RUNS["async-many-queues"]


@pytest.mark.parametrize(("flush", "queues", "runs"), RUNS.values(), ids=RUNS)
def test_power_loss(
    tmp_path: Path, flush: str, queues: int, runs: tuple[int, int], tally: Callable[..., Tally]
) -> None:
    counts = tally("S06", flush if queues == 2 else f"{flush}, many queues")
    taken = promised = 0
    for seed in seeds(*runs):
        run = run_of(tmp_path / "run", seed, flush, queues)
        assert run.instants
        for number, instant in enumerate(run.instants):
            p = SHARES[number % len(SHARES)]
            image = tmp_path / "image"
            instant.state.crash(image, seed, p)
            context = f"seed {seed}, image {number} (p={p}, before {instant.call.kind} {instant.call.path})"
            missing, kept = after_power_loss(image, instant, run, context)
            taken, promised = taken + len(missing), promised + kept
            counts.trial(None, context, hit=bool(missing) or bool(instant.state.pending))
            shutil.rmtree(image)
        shutil.rmtree(tmp_path / "run")
    assert promised > 100
    assert (taken > 0) == (flush == "async")


def test_power_loss_with_a_store_pool(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Appends wait in the pool's buffers: readers see the committed ones, a power loss leaves a prefix of those."""
    counts = tally("S06", "pool")
    taken = waiting = 0
    for seed in seeds(4, 40):
        run = run_of(tmp_path / "run", seed, "async", **POOL)
        assert run.instants
        for number, instant in enumerate(run.instants):
            context = f"seed {seed}, image {number} (before {instant.call.kind} {instant.call.path})"
            image = tmp_path / "image"
            waiting += check_only_committed_messages_are_read(image, instant, context)
            shutil.rmtree(image)
            instant.state.crash(image, seed, SHARES[number % len(SHARES)])
            missing, _ = after_power_loss(image, instant, run, context)
            taken += len(missing)
            counts.trial(None, context, hit=bool(missing))
            shutil.rmtree(image)
        shutil.rmtree(tmp_path / "run")
    assert taken >= waiting > 0


def check_only_committed_messages_are_read(image: Path, instant: Instant, context: str) -> int:
    """Check that a reader sees only messages in the log files; return how many acked messages are not in them."""
    instant.state.kill(image)
    if not (image / "commitlog").is_dir():
        return 0
    written = {record.phy_offset for record in log_records(image)}
    shown = {ack.phy_offset for ack in instant.acks if ack.end_offset <= instant.confirm_offset}
    assert shown <= written, f"{context}: shown and not committed"
    with StoreReader(image) as reader:
        seen = {
            offset
            for queue in reader.queues("t")
            for batch in reader.read("t", queue, *reader.bounds("t", queue), ["physicalOffset"])
            for offset in batch.column(0).to_pylist()
        }
    assert seen <= written, f"{context}: seen and not committed"
    return len({ack.phy_offset for ack in instant.acks} - written)
