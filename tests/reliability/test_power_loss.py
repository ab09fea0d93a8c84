"""Row S06: power loss at random instants of a run; what was synced is there, and only a suffix is missing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from tests.reliability.checker import check, numbers_there
from tests.reliability.power import Instant, Run, config
from tests.reliability.results import Tally
from tests.reliability.simulated_disk import SimulatedDisk
from tests.reliability.trials import seeds
from tests.reliability.workload import SMALL

pytestmark = pytest.mark.slow

STEPS = 160
IMAGES = 15
"""Power losses in one run."""
SHARES = (0.1, 0.5, 0.9)


def run_of(directory: Path, seed: int, flush: str) -> Run:
    """A run with about `IMAGES` instants kept."""
    rng = random.Random(seed)
    (directory / "live").mkdir(parents=True)
    with SimulatedDisk(directory / "live") as disk:
        chance = IMAGES / (STEPS * (7 if flush == "sync" else 4))
        run = Run(disk, flush, rng, lambda _: rng.random() < chance)
        run.go(STEPS)
    run.instants = run.instants[: 2 * IMAGES]
    return run


def after_power_loss(image: Path, instant: Instant, run: Run, context: str) -> tuple[list[int], int]:
    """Recover the image; (acknowledged messages that are missing, those of them that were promised)."""
    size = SMALL["mapped_file_size_commit_log"]
    durable = instant.acks if run.flush == "sync" else instant.durable(size)
    promised = {ack.number: ack.place for ack in durable}
    # nobody has seen what the flush mode may take back (C1)
    promised |= {
        ack.number: ack.place
        for ack in instant.acks
        if run.flush == "sync" and ack.end_offset <= instant.confirm_offset
    }
    with MessageStore.open(image, config(run.flush)) as store:
        recovery = store.recovery
        end = store.max_phy_offset
    verdict = check(image, promised, run.numbers(instant.attempted))
    assert verdict.clean, f"{context}: {verdict}"
    assert not keys_missing(image), f"{context}: keys {keys_missing(image)} lead nowhere"
    missing = [ack for ack in instant.acks if ack.end_offset > end]
    served = check(
        image, {ack.number: ack.place for ack in instant.acks if ack.end_offset <= end}, run.numbers(instant.attempted)
    )
    assert served.clean, f"{context}: not a suffix: {served}"  # everything below the new end is there (B1)
    flushed = {ack.number for ack in instant.acks[: instant.flushed]}
    assert not flushed & {ack.number for ack in missing}, f"{context}: a completed flush was lost"
    assert recovery.abort_found or not missing, context
    return [ack.number for ack in missing], len(promised)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_power_loss_after_a_kill(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    """The process is killed, another one opens the store and goes on, and then the power goes: two faults, one disk."""
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


def keys_missing(image: Path) -> list[int]:
    """Numbers of messages that are there and that their key does not lead to."""
    there = set(numbers_there(image, "t").values())
    with StoreReader(image) as reader:
        return [number for number in sorted(there) if len(reader.query_message("t", f"k{number}")) != 1]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_power_loss(tmp_path: Path, flush: str, tally: Callable[..., Tally]) -> None:
    counts = tally("S06", flush)
    taken = promised = 0
    for seed in seeds(5, 67):
        run = run_of(tmp_path / "run", seed, flush)
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
