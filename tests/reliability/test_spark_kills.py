"""Rows P01, P03 and P07: driver, commit or worker killed around a batch, replayed with other partitions."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.driver_process import Driver
from tests.support.results import Tally
from tests.support.trials import LEVEL, places, seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def started(begin: Begin, driver: Driver, directory: Path, rng: random.Random) -> tuple[Copying, int]:
    """Return a query with rows for up to three batches, and the id of one of them."""
    copying = begin(driver, directory)
    rows = rng.randint(BATCH_ROWS + 1, 3 * BATCH_ROWS)
    copying.put(range(rows))
    return copying, rng.randrange((rows - 1) // BATCH_ROWS + 1)


@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_batch_that_spark_forgot(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P01 a: the state after a driver was killed between the sink's commit and Spark's."""
    counts = tally("P01", f"a {variant}".strip())
    for seed in seeds(8, 40):
        rng = random.Random(seed)
        copying, _ = started(begin, driver, tmp_path / "c", rng)
        outcome = copying.run(rng.randint(1, 7))
        outcome.must_be_ok(seed)
        newest = max(int(one.name) for one in (copying.checkpoint / "commits").iterdir() if one.name.isdigit())
        for name in (str(newest), f".{newest}.crc"):
            (copying.checkpoint / "commits" / name).unlink(missing_ok=True)
        if rng.random() < 0.5:
            copying.put(range(1000, 1000 + BATCH_ROWS))
        outcome = copying.run(rng.randint(1, 7))
        outcome.must_be_ok(seed)
        replayed = [one["batch"] for one in driver.faults.notes("commit") if one["status"] == "replayed"]
        counts.trial(copying.check(), f"seed {seed}", hit=replayed == [newest])
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials


def drivers_to_kill(directory: Path, trials: range) -> Iterator[tuple[int, Driver]]:
    """Yield a driver for each seed; the next one starts while the last one is used."""
    with contextlib.ExitStack() as after:
        made = [after.enter_context(Driver(directory / f"d{trials[0]}"))]
        for seed in trials:
            if seed + 1 in trials:
                made.append(after.enter_context(Driver(directory / f"d{seed + 1}")))
            with made.pop(0) as driver:
                yield seed, driver


@pytest.mark.skipif(LEVEL == "sample", reason="a driver for each trial; P01 a has the state after it: RF_FAULTS=1")
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_driver_killed_after_the_durable_point(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P01 b: the commit kills the JVM that called it; another driver goes on."""
    counts = tally("P01", f"b {variant}".strip())
    for seed, killed in drivers_to_kill(tmp_path, seeds(2, 10)):
        rng = random.Random(seed)
        copying, batch_id = started(begin, driver, tmp_path / "c", rng)
        killed.faults.plan("commit-after", batch_id, jvm=True)
        first = copying.run(rng.randint(1, 7), driver=killed)
        second = copying.run(rng.randint(1, 7))
        second.must_be_ok(seed)
        replayed = [one["batch"] for one in driver.faults.notes("commit") if one["status"] == "replayed"]
        counts.trial(copying.check(), f"seed {seed}", hit=first.died and replayed == [batch_id])
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials


@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_worker_killed_in_the_middle_of_a_task(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P03: Spark runs the task again; the parts of the killed attempt are deleted after the batch."""
    counts = tally("P03", variant)
    partial_parts = 0
    for seed in seeds(8, 50):
        rng = random.Random(seed)
        copying, batch_id = started(begin, driver, tmp_path / "c", rng)
        driver.faults.plan("task", batch_id, row=rng.randint(0, 12))
        outcome = copying.run(rng.randint(1, 4))
        outcome.must_be_ok(seed)
        counts.trial(copying.check(), f"seed {seed}", hit=driver.faults.happened("task", batch_id))
        at_commit = next(one["before"] for one in driver.faults.notes("commit") if one["batch"] == batch_id)
        partial_parts += any(name.endswith(".tmp") for name in at_commit)
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials
    if not variant:  # over the network a part is sent when it is complete
        assert partial_parts, "no killed attempt left a partial part: the row tests nothing"


@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_batch_replayed_with_other_partitions(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """P07: the commit is killed before it begins, and the batch planned again with another number of partitions."""
    counts = tally("P07", variant)
    for seed in seeds(5, 20):
        rng = random.Random(seed)
        before, after = rng.sample(range(1, 9), 2)
        copying, batch_id = started(begin, driver, tmp_path / "c", rng)
        driver.faults.plan("commit-before", batch_id)
        first = copying.run(before)
        second = copying.run(after)
        second.must_be_ok(seed)
        counts.trial(copying.check(), f"seed {seed}, {before} to {after} partitions", hit=not first.ok)
        assert copying.leftovers() == [], seed
        copying.remove()
    assert counts.hits == counts.trials
