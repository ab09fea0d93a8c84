"""Rows P04, P05, P10 and P11: a killed executor, two attempts of a task, commit or abort raise, a stream has a bug."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.copying import BATCH_ROWS, Begin
from tests.support.driver_process import Driver
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, places, seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLUSTER = "local-cluster[2,1,700]"
BUGGY = "if(rand({seed}) < {share}, cast(raise_error('a bug of the user') as binary), body) as body"
MOST_RESTARTS = 400


@pytest.mark.skipif(LEVEL == "sample", reason="RF_FAULTS=1 or RF_FULL=1: two executors of their own")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_an_executor_killed_in_the_middle_of_a_task(
    begin: Begin, variant: str, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P04: the task runs again on another one, and the parts of the killed one are deleted after the batch."""
    counts = tally("P04", variant)
    with Driver(tmp_path / "d", CLUSTER) as driver:
        for seed in seeds(2, 15):
            rng = random.Random(seed)
            copying = begin(driver, tmp_path / "c")
            copying.put(range(3 * BATCH_ROWS))
            batch_id = rng.randrange(3)
            driver.faults.plan("task", batch_id, row=rng.randint(0, 12), jvm=True)
            outcome = copying.run(rng.randint(1, 4))
            outcome.must_be_ok(seed)
            counts.trial(copying.check(), f"seed {seed}", hit=driver.faults.happened("task", batch_id))
            assert copying.leftovers() == [], seed
            copying.remove()
    assert counts.hits == counts.trials


@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_two_attempts_write_all_of_a_task(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P05: the commit gets one of them, as with speculation."""
    counts = tally("P05", variant)
    for seed in seeds(5, 20):
        rng = random.Random(seed)
        copying = begin(driver, tmp_path / "c")
        copying.put(range(2 * BATCH_ROWS))
        batch_id = rng.randrange(2)
        driver.faults.plan("twice", batch_id, committed=rng.randrange(2))
        outcome = copying.run(rng.randint(1, 4))
        outcome.must_be_ok(seed)
        commit = next(one for one in driver.faults.notes("commit") if one["batch"] == batch_id)
        attempts = Counter(Path(name).name.partition("-")[0] for name in commit["before"])  # by partition
        counts.trial(copying.check(), f"seed {seed}", hit=2 in attempts.values())
        assert commit["after"] == [], seed
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials


@pytest.mark.skipif(LEVEL == "sample", reason="test_commit_steps.py kills commits: RF_FAULTS=1 runs it")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_commit_that_raises(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P10: before or after its durable point; the abort that follows raises too, or not."""
    counts = tally("P10", variant)
    for seed in seeds(12, 40, least=2):
        rng = random.Random(seed)
        after, abort = seed % 2 == 1, seed // 2 % 2 == 1
        context = f"seed {seed}, after={after}, abort raises={abort}"
        copying = begin(driver, tmp_path / "c")
        copying.put(range(rng.randint(BATCH_ROWS + 1, 3 * BATCH_ROWS)))
        batch_id = rng.randrange(2)
        driver.faults.plan("commit-raises", batch_id, after=after)
        if abort:
            driver.faults.plan("abort-raises", batch_id)
        failed = copying.run(rng.randint(1, 4))
        assert "the disk went away" in failed.error, (context, failed.error)
        again = copying.run(rng.randint(1, 4))
        again.must_be_ok(context)
        replayed = [one["batch"] for one in driver.faults.notes("commit") if one["status"] == "replayed"]
        assert replayed == ([batch_id] if after else []), context
        hit = not failed.ok and driver.faults.happened("abort-raises", batch_id) == abort
        counts.trial(copying.check(), context, hit=hit)
        assert copying.leftovers() == [], context
        copying.remove()
    assert counts.hits == counts.trials


@pytest.mark.skipif(LEVEL == "sample", reason="a minute of Spark: RF_FAULTS=1 runs it")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_stream_with_a_bug(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P11: it fails at random rows and is restarted, while others write, until it is complete."""
    counts = tally("P11", variant)
    wanted = 10_000 if FULL else 2_000 if LEVEL == "fast" else 200
    for seed in seeds(1, 2):
        rng = random.Random(seed)
        copying = begin(driver, tmp_path / "c")
        failures = restarts = 0
        while True:
            missing = wanted - len(copying.numbers)
            if missing:
                copying.put(range(len(copying.numbers), len(copying.numbers) + min(missing, rng.randint(20, 90))))
            select = BUGGY.format(seed=rng.randrange(1 << 30), share=0.3 if restarts == 0 else 0.003)
            outcome = copying.run(rng.randint(1, 4), select=(select,))
            restarts += 1
            if not outcome.ok:
                failures += 1
                assert "a bug of the user" in outcome.error, (seed, outcome.error)
            elif not missing:
                break
            assert restarts < MOST_RESTARTS, seed
        counts.trial(copying.check(), f"seed {seed}, {failures} of {restarts} runs failed", hit=failures > 0)
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials
