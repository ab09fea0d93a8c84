"""Row P02: the commit killed before each of its disk calls, then Spark's abort, then the query again.

Over the network it is killed before each call of its connections to the broker, which commits or not.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.disk_calls import (
    CALLS,
    NETWORK_CALLS,
    KillPoint,
    kill_points,
    needs_strace,
    network_points,
    stretches,
)
from tests.support.driver_process import Driver
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, some

pytestmark = [pytest.mark.spark, pytest.mark.slow, needs_strace]

TRIES = 3
"""Points tried per part: the number of a thread's calls varies, so that some points are never reached."""


def prepared(driver: Driver, directory: Path, batch_id: int) -> tuple[Copying, Path]:
    """Return a query whose next batch is `batch_id`, and a copy of its store and checkpoint for restarts."""
    copying = Copying(driver, directory)
    if batch_id:
        copying.put(range(BATCH_ROWS * batch_id))
        outcome = copying.run(3)
        outcome.must_be_ok("before any fault")
    copying.put(range(BATCH_ROWS * batch_id, BATCH_ROWS * (batch_id + 1)))
    image = directory.with_suffix(".image")
    shutil.copytree(directory, image)
    return copying, image


def begin_again(copying: Copying, image: Path) -> None:
    shutil.rmtree(copying.directory)
    shutil.copytree(image, copying.directory)
    copying.driver.faults.clear()


def steps_of_commit(copying: Copying, image: Path, batch_id: int) -> list[KillPoint]:
    log = image.parent / "commit.log"
    copying.driver.faults.plan("commit-trace", batch_id, log=str(log), arguments=["-e", f"trace={CALLS}"])
    outcome = copying.run(3)
    outcome.must_be_ok("before any fault")
    points = kill_points(log, copying.store)
    begin_again(copying, image)
    return points


@pytest.mark.parametrize("batch_id", [0, 1] if LEVEL != "sample" else [0])
def test_a_commit_killed_at_a_disk_call(
    driver: Driver, tmp_path: Path, tally: Callable[..., Tally], batch_id: int
) -> None:
    counts = tally("P02", f"batch {batch_id}")
    copying, image = prepared(driver, tmp_path / "c", batch_id)
    points = steps_of_commit(copying, image, batch_id)
    if FULL:
        chosen = [[point] for point in points]
    elif LEVEL == "sample":  # before and after the durable point
        chosen = [points[:2], points[:-3:-1]]
    else:
        chosen = [points[:2], *stretches(points[2:-2], max(some(6) - 2, 1), SEED), points[:-3:-1]]
    seen = set()
    for stretch in chosen:
        for point in stretch[:TRIES]:
            context = f"seed {SEED}, killed at {point} of {len(points)} points"
            driver.faults.plan("commit-call", batch_id, call=point.call, nth=point.nth)
            first = copying.run(3)
            second = copying.run(3)
            second.must_be_ok(context)
            last = driver.faults.notes("commit")[-1]
            seen.add((last["status"], bool(driver.faults.notes("abort"))))
            counts.trial(copying.check(), context, hit=not first.ok)
            assert copying.leftovers() == [], context
            begin_again(copying, image)
            if not first.ok:
                break
    counts.assert_happened(len(chosen))
    assert ("committed", True) in seen, "no abort after a commit that was not durable"
    assert ("replayed", True) in seen, "no abort after a commit that was durable"


@pytest.mark.skipif(LEVEL == "sample", reason="RF_FAULTS=1 or RF_FULL=1: P18 has a sample")
@pytest.mark.parametrize("begin", ["network"], indirect=True)
def test_a_commit_killed_at_a_call_of_its_connection(
    begin: Begin, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("P02", "network")
    log = tmp_path / "commit.log"

    def started() -> Copying:
        copying = begin(driver, tmp_path / "c")
        copying.put(range(BATCH_ROWS))
        return copying

    copying = started()
    driver.faults.plan("commit-trace", 0, log=str(log), arguments=["-yy", "-e", f"trace={NETWORK_CALLS}"])
    copying.run(3).must_be_ok("before any fault")
    copying.remove()
    points = network_points(log)
    seen = set()
    for point in points:
        context = f"killed at {point} of {points}"
        copying = started()
        driver.faults.plan("commit-call", 0, call=point.call, nth=point.nth)
        first = copying.run(3)
        copying.run(3).must_be_ok(context)
        seen.add(driver.faults.notes("commit")[-1]["status"])
        counts.trial(copying.check(), context, hit=not first.ok)
        assert copying.leftovers() == [], context
        copying.remove()
    counts.assert_happened(share=0.5)
    assert seen == {"committed", "replayed"}, points
