"""Row S06: power loss at random instants of a run; what was synced is there, and only a suffix is missing."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.power import Run, after_power_loss
from tests.reliability.results import Tally
from tests.reliability.simulated_disk import SimulatedDisk
from tests.reliability.trials import seeds

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
