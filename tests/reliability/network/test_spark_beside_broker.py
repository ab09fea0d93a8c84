"""Row P18: a query and producers write one topic of a broker's store; broker, commit or driver is killed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import ResponseCode
from tests.reliability.driver_process import Driver, Outcome
from tests.reliability.network.wire import CODE, Load, asked, broker_at, no_traceback, send_header, topic_header
from tests.support.checker import Verdict, check, numbers_in_topic
from tests.support.ports import free_port
from tests.support.results import Tally
from tests.support.servers import RunningServer
from tests.support.trials import LEVEL, seeds
from tests.support.workload import body

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCH_ROWS = 40
FIRST_COPIED = 10_000_000
SINK = "copies"


async def _sent(address: str, numbers: Iterable[int]) -> None:
    """Send the rows that the query copies."""
    peers = Peers()
    channel = await peers.channel(address)
    for topic in ("in", "t"):
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic_header(topic, 2))
    answers = await asyncio.gather(
        *(asked(channel, CODE.SEND_MESSAGE, send_header("in", number % 2), body(number)) for number in numbers)
    )
    assert {one.code for one in answers} == {ResponseCode.SUCCESS}
    await peers.close()


class Beside:
    """A store with its broker, producers of topic `t`, and a query by path that copies topic `in` to `t`."""

    def __init__(self, home: Path, rng: random.Random) -> None:
        self.home, self.store = home, home / "store"
        self.copied = set(range(FIRST_COPIED, FIRST_COPIED + rng.randint(2 * BATCH_ROWS, 4 * BATCH_ROWS)))
        self._port, self._rng = free_port((-2, 1)), rng
        self._open = ExitStack()
        self._loads: list[tuple[Load, threading.Thread]] = []
        self.broker = self._started()
        run(_sent(self.broker.address, self.copied))
        self.send()

    def _started(self) -> RunningServer:
        return self._open.enter_context(broker_at(self.home, port=self._port))

    def send(self) -> None:
        """Send to topic `t` until the broker ends."""
        first = sum(len(one.attempted) for one, _ in self._loads)
        load = Load(self.broker.address, first=first, pause_s=0.01)
        thread = threading.Thread(target=lambda: run(load.run(connections=2, senders=3)))
        thread.start()
        self._loads.append((load, thread))

    def copy(self, driver: Driver) -> Outcome:
        """Run the query until it has copied all rows."""
        return driver.run(
            source={
                "path": str(self.store),
                "subscribe": "in",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH_ROWS),
            },
            where="true",
            select=["body"],
            partitions=self._rng.randint(1, 3),
            sink={
                "path": str(self.store),
                "topic": "t",
                "sinkId": SINK,
                "checkpointLocation": str(self.home / "checkpoint"),
            },
        )

    def kill_broker_at(self, batch_id: int, query: threading.Thread) -> bool:
        """Kill the broker around the commit of batch 0 or 1, start it again; return whether the query ran meanwhile."""
        mark = self.store / "rocketflow/staging" / SINK / ("last" if batch_id else "runs")
        while query.is_alive() and not mark.exists():
            time.sleep(0.001)
        time.sleep(self._rng.uniform(0, 0.2))
        self.broker.kill()
        hit = query.is_alive()
        time.sleep(self._rng.uniform(0, 0.3))
        no_traceback(self.broker)
        self.broker = self._started()
        self.send()
        return hit

    def stop(self) -> Verdict:
        """Stop producers and broker, and compare topic `t` with what was sent, acknowledged and copied."""
        assert self.broker.stop() == 0, self.broker.log.read_text()[-3000:]
        no_traceback(self.broker)
        for _, thread in self._loads:
            thread.join(60)
        self._open.close()
        loads = [load for load, _ in self._loads]
        verdict = check(
            self.store,
            {number: place for load in loads for number, place in load.acked.items()},
            self.copied.union(*(load.attempted for load in loads)),
            refused=set().union(*(load.refused for load in loads)),
        )
        verdict.lost += sorted(self.copied - set(numbers_in_topic(self.store, "t").values()))
        assert loads[0].acked
        return verdict


def test_broker_killed_while_a_query_commits(driver: Driver, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("P18", "broker killed")
    for seed in seeds(6, 30):
        driver.faults.clear()
        rng = random.Random(seed)
        beside = Beside(tmp_path / str(seed), rng)
        outcomes: list[Outcome] = []
        query = threading.Thread(target=lambda to=outcomes, of=beside: to.append(of.copy(driver)))  # type: ignore[misc]
        query.start()
        hit = beside.kill_broker_at(rng.randint(0, 1), query)
        query.join(240)
        outcomes[0].must_be_ok(seed)
        counts.trial(beside.stop(), f"seed {seed}", hit=hit)
    counts.assert_happened()


def test_commit_killed_beside_the_broker(driver: Driver, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """The commit's process dies before its request, or after the answer; Spark repeats the batch."""
    counts = tally("P18", "commit killed")
    for seed in seeds(6, 30):
        point = "commit-after" if seed % 2 else "commit-before"
        driver.faults.clear()
        rng = random.Random(seed)
        beside = Beside(tmp_path / str(seed), rng)
        batch_id = rng.randint(0, 1)
        driver.faults.plan(point, batch_id)
        first = beside.copy(driver)
        beside.copy(driver).must_be_ok(seed)
        replayed = [one["batch"] for one in driver.faults.notes("commit") if one["status"] == "replayed"]
        assert replayed == ([batch_id] if point == "commit-after" else [])
        counts.trial(beside.stop(), f"seed {seed}", hit=not first.ok)
    assert counts.hits == counts.trials


@pytest.mark.skipif(LEVEL == "sample", reason="each trial needs a driver of its own")
def test_driver_killed_beside_the_broker(driver: Driver, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("P18", "driver killed")
    for seed in seeds(2, 10):
        driver.faults.clear()
        rng = random.Random(seed)
        beside = Beside(tmp_path / str(seed), rng)
        with Driver(tmp_path / f"d{seed}") as killed:
            killed.faults.plan(rng.choice(["commit-before", "commit-after"]), rng.randint(0, 1), jvm=True)
            first = beside.copy(killed)
        beside.copy(driver).must_be_ok(seed)
        counts.trial(beside.stop(), f"seed {seed}", hit=first.died)
    assert counts.hits == counts.trials
