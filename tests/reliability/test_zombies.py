"""Row P06: a task attempt that Spark gave up goes on writing, until after the commit of its batch."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.copying import BATCH_ROWS, Begin
from tests.support.driver_process import Driver
from tests.support.results import Tally
from tests.support.trials import places, seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KINDS = [("after", False), ("after", True), ("before", False), ("after", False), ("before", True)]
"""(when it may write: after or before the commit, whether it has written half by then)"""


@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_a_zombie_attempt_writes_late(
    begin: Begin, variant: str, driver: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("P06", variant)
    for seed in seeds(5, 20):
        rng = random.Random(seed)
        when, half = KINDS[seed % len(KINDS)]
        killed = rng.random() < 0.5
        context = f"seed {seed}: {when} the commit, half={half}, killed={killed}"
        copying = begin(driver, tmp_path / "c")
        copying.put(range(3 * BATCH_ROWS))
        batch_id = rng.randrange(2)  # another batch must follow: its commit cleans up
        gates = {name: str(tmp_path / f"{name}{seed}") for name in ("go", "done")}
        for gate in gates.values():
            os.mkfifo(gate)
        driver.faults.plan("zombie", batch_id, half=half, killed=killed, **gates)
        driver.faults.plan("release", batch_id, when=when, **gates)
        outcome = copying.run(rng.randint(1, 4))
        outcome.must_be_ok(context)
        (zombie,) = driver.faults.notes("zombie")
        commits = {one["batch"]: one for one in driver.faults.notes("commit")}
        counts.trial(copying.check(), context, hit=driver.faults.happened("release", batch_id))
        if when == "after" and half and not variant:  # its directory was deleted meanwhile
            assert "FileNotFoundError" in zombie["error"], context
        elif when == "after":  # it wrote after the cleanup, so the next commit deletes it
            late = Path(zombie["wrote"]).name
            assert any(name.endswith(late) for name in commits[batch_id]["after"]), context
        else:  # complete, but not the part that the commit got
            assert Path(zombie["wrote"]).name.startswith("p"), context
            assert commits[batch_id]["after"] == [], context
        assert commits[batch_id + 1]["after"] == [], context
        assert copying.leftovers() == [], context
        copying.remove()
    assert counts.hits == counts.trials
