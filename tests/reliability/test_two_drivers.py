"""Rows P08 and P09: two drivers run one query on one checkpoint, at once, or one resumes after the other."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reliability.copying import BATCH_ROWS, Begin, Copying
from tests.support.driver_process import Driver, Outcome
from tests.support.results import Tally
from tests.support.trials import LEVEL, places, seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLEAR = re.compile(
    r"was superseded by run|came after batch \d+ was committed"
    r"|CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming queries are concurrently"
    r"|assertion failed[^\n]*\n+(?:  at .*\n)*  at .*MicroBatchExecution\.initializeExecution"
)
"""Errors of a driver that is not alone: the sink's, or Spark's about its own log.

Spark's start reads one log after the other, and asserts that both agree: a batch of the other driver between them ends
the start, before there is a source or a sink.
"""


class Running:
    """A query in a thread."""

    def __init__(self, copying: Copying, partitions: int, driver: Driver) -> None:
        self._thread = threading.Thread(target=self._run, args=(copying, partitions, driver), daemon=True)
        self.outcome: Outcome | None = None
        self._thread.start()

    def _run(self, copying: Copying, partitions: int, driver: Driver) -> None:
        self.outcome = copying.run(partitions, driver=driver)

    def await_gate(self, gate: str) -> None:
        """Wait until the query's process writes to a named pipe; it goes on meanwhile."""
        fd = os.open(gate, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                with suppress(BlockingIOError):  # opened, and not yet written to
                    if os.read(fd, 100):
                        return
                assert self.outcome is None, self.outcome
                time.sleep(0.02)
        finally:
            os.close(fd)

    def ended(self) -> Outcome:
        self._thread.join(180)
        assert self.outcome is not None, "the query did not end"
        return self.outcome


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("second") / "d") as made:
        yield made


@pytest.mark.skipif(
    LEVEL == "sample", reason="a second driver; test_sink_commit.py has its commits: RF_FAULTS=1 runs it"
)
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_two_drivers_start_at_once(
    begin: Begin, variant: str, driver: Driver, second: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = tally("P08", variant)
    for seed in seeds(3, 20):
        rng = random.Random(seed)
        copying = begin(driver, tmp_path / "c")
        copying.put(range(4 * BATCH_ROWS))
        both = [Running(copying, rng.randint(1, 4), one) for one in rng.sample([driver, second], 2)]
        outcomes = [one.ended() for one in both]
        for one in outcomes:
            assert one.ok or CLEAR.search(one.error), f"seed {seed}: {one.error}"
        copying.run(rng.randint(1, 4)).must_be_ok(seed)
        counts.trial(copying.check(), f"seed {seed}", hit=not all(one.ok for one in outcomes))
        copying.remove()


@pytest.mark.skipif(
    LEVEL == "sample", reason="a second driver; test_sink_commit.py has its commits: RF_FAULTS=1 runs it"
)
@pytest.mark.parametrize(("begin", "variant"), places(), indirect=["begin"])
def test_driver_resumes_after_the_commits_of_another(
    begin: Begin, variant: str, driver: Driver, second: Driver, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """F4: it waits before its commit; the other one commits this batch and the next meanwhile."""
    counts = tally("P09", variant)
    for seed in seeds(2, 10):
        rng = random.Random(seed)
        copying = begin(driver, tmp_path / "c")
        second.faults.clear()
        copying.put(range(2 * BATCH_ROWS))
        batch_id = rng.randrange(2)
        gates = {name: str(tmp_path / f"{name}{seed}") for name in ("go", "done")}
        for gate in gates.values():
            os.mkfifo(gate)
        second.faults.plan("release", batch_id, when="before", **gates)
        waiting = Running(copying, rng.randint(1, 4), second)
        waiting.await_gate(gates["go"])
        copying.put(range(2 * BATCH_ROWS, 3 * BATCH_ROWS))
        copying.run(rng.randint(1, 4)).must_be_ok(seed)
        before = copying.check()
        Path(gates["done"]).write_text("done")
        outcome = waiting.ended()
        assert not outcome.ok, seed
        assert CLEAR.search(outcome.error), f"seed {seed}: {outcome.error}"
        assert "superseded" in outcome.error, f"seed {seed}: {outcome.error}"
        assert copying.check() == before, seed
        counts.trial(copying.check(), f"seed {seed}", hit=True)
        copying.remove()
    assert counts.hits == counts.trials
