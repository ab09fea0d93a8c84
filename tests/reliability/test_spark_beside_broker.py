"""Row P18: a query and producers write one topic of a broker's store; broker, commit, driver or producers are killed.

The query reaches the store by path in half of the trials, and over the network alone in the others.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow_store.spi.messages import Message
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.checker import Place, Verdict, check, numbers_in_topic
from tests.support.driver_process import Driver, Outcome
from tests.support.ports import free_port
from tests.support.results import Tally
from tests.support.servers import RunningServer, direct, put_batch, running, running_broker
from tests.support.trials import LEVEL, environment, seeds
from tests.support.workload import body

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCH_ROWS = 40
FIRST_COPIED = 10_000_000
NUMBERS_OF_A_PROCESS = 1_000_000
SINK = "copies"


class Sender:
    """Sends numbered messages to topic `t` until the broker ends, one after the other in each queue."""

    def __init__(self, address: str, first: int) -> None:
        self.attempted: set[int] = set()
        self.acked: dict[int, Place] = {}
        self._address, self._next = address, first
        self._thread = threading.Thread(target=lambda: run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        await asyncio.gather(*(self._send(queue_id) for queue_id in (0, 1)))

    async def _send(self, queue_id: int) -> None:
        async with direct() as client:
            with suppress(ClientError):  # killed, or stopping
                while True:
                    number, self._next = self._next, self._next + 1
                    self.attempted.add(number)
                    message = Message("t", body(number), keys=f"k{number}")
                    offset = await put_batch(client, self._address, queue_id, [message])
                    self.acked[number] = queue_id, offset
                    await asyncio.sleep(0.005)

    def wait(self) -> bool:
        """Wait until the broker has ended; return whether producers were killed before: never."""
        self._thread.join(60)
        return False


class Processes:
    """64 producers of topic `t` in two processes, one of which is killed after a while; as `Sender` otherwise."""

    def __init__(self, home: Path, address: str, generation: int, seconds: float) -> None:
        self._places = [home / f"producers-{generation}-{one}" for one in range(2)]
        self._running = []
        for one, place in enumerate(self._places):
            first = (2 * generation + one) * NUMBERS_OF_A_PROCESS
            words = [sys.executable, "-m", "tests.reliability.producers", address, str(first), "32"]
            with place.open("wb") as output:
                self._running.append(subprocess.Popen(words, stdout=output, env=environment()))
        self._was_killed = False
        self._killer = threading.Timer(seconds, self._kill)
        self._killer.start()

    def _kill(self) -> None:
        self._was_killed = self._running[0].poll() is None
        self._running[0].kill()

    def wait(self) -> bool:
        """Wait until the broker has ended; return whether producers were killed before."""
        self._killer.cancel()
        self._killer.join()
        for one in self._running:
            one.wait(60)
        return self._was_killed

    @property
    def attempted(self) -> set[int]:
        """Return the numbers that may have been sent."""
        return {words[0] for words in self._lines()}

    @property
    def acked(self) -> dict[int, Place]:
        """Return the places that were acknowledged."""
        return {words[0]: (words[1], words[2]) for words in self._lines() if len(words) > 1}

    def _lines(self) -> Iterator[list[int]]:
        for place in self._places:
            for line in place.read_text().splitlines():
                yield [int(word) for word in line.split()]


async def _sent(address: str, numbers: list[int]) -> None:
    """Send the rows that the query copies."""
    async with direct() as client:
        for topic in ("in", "t"):
            await client.create_topic(address, TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2))
        for queue_id in (0, 1):
            rows = [Message("in", body(number)) for number in numbers[queue_id::2]]
            await put_batch(client, address, queue_id, rows)


class Beside:
    """A store with its broker, producers of topic `t`, and a query that copies topic `in` to `t`.

    The query sees the store's directory, or with `by_network` only a NameServer.
    """

    def __init__(self, home: Path, rng: random.Random, *, by_network: bool) -> None:
        self.home, self.store = home, home / "store"
        self.copied = set(range(FIRST_COPIED, FIRST_COPIED + rng.randint(2 * BATCH_ROWS, 4 * BATCH_ROWS)))
        self._port, self._rng = free_port((-2, 1)), rng
        self._open = ExitStack()
        self._names = self._open.enter_context(running("namesrv", home / "names")) if by_network else None
        self._senders: list[Sender | Processes] = []
        self.killed_producers = False
        self.broker = self._started()
        run(_sent(self.broker.address, sorted(self.copied)))
        self.send()

    def _started(self) -> RunningServer:
        settings = () if self._names is None else (f"namesrvAddr={self._names.address}",)
        return self._open.enter_context(running_broker(self.home, *settings, port=self._port))

    def send(self) -> None:
        """Send to topic `t` until the broker ends."""
        address = self.broker.address
        if LEVEL == "sample":
            self._senders.append(Sender(address, sum(len(one.attempted) for one in self._senders)))
        else:
            seconds = self._rng.uniform(1, 6)
            self._senders.append(Processes(self.home, address, len(self._senders), seconds))

    def copy(self, driver: Driver) -> Outcome:
        """Run the query until it has copied all rows."""
        place = {"path": str(self.store)} if self._names is None else {"namesrvAddr": self._names.address}
        return driver.run(
            source={
                **place,
                "subscribe": "in",
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH_ROWS),
            },
            where="true",
            select=["body"],
            partitions=self._rng.randint(1, 3),
            sink={
                **place,
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
        self.broker = self._started()
        self.send()
        return hit

    def stop(self) -> Verdict:
        """Stop producers and broker, and compare topic `t` with what was sent, acknowledged and copied."""
        self.broker.stop_in_order()
        for one in self._senders:
            self.killed_producers |= one.wait()
        self._open.close()
        verdict = check(
            self.store,
            {number: place for one in self._senders for number, place in one.acked.items()},
            self.copied.union(*(one.attempted for one in self._senders)),
        )
        verdict.lost += sorted(self.copied - set(numbers_in_topic(self.store, "t").values()))
        assert self._senders[0].acked
        return verdict


def test_broker_killed_while_a_query_commits(driver: Driver, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts, killed = tally("P18", "broker killed"), tally("P18", "broker and producers killed")
    for seed in seeds(6, 30):
        driver.faults.clear()
        rng = random.Random(seed)
        beside = Beside(tmp_path / str(seed), rng, by_network=seed % 2 == 1)
        outcomes: list[Outcome] = []
        query = threading.Thread(target=lambda to=outcomes, of=beside: to.append(of.copy(driver)))  # type: ignore[misc]
        query.start()
        hit = beside.kill_broker_at(rng.randint(0, 1), query)
        query.join(240)
        outcomes[0].must_be_ok(seed)
        verdict = beside.stop()
        (killed if beside.killed_producers else counts).trial(verdict, f"seed {seed}", hit=hit)
    assert counts.hits + killed.hits > (counts.trials + killed.trials) * 3 // 4
    assert killed.trials or counts.trials < 4


@pytest.mark.skipif(LEVEL == "sample", reason="test_commit_steps.py kills commits: RF_FAULTS=1 runs it")
def test_commit_killed_beside_the_broker(driver: Driver, tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """The commit's process dies before its request, or after the answer; Spark repeats the batch."""
    counts = tally("P18", "commit killed")
    for seed in seeds(6, 30):
        point = "commit-after" if seed % 2 else "commit-before"
        driver.faults.clear()
        rng = random.Random(seed)
        beside = Beside(tmp_path / str(seed), rng, by_network=seed // 2 % 2 == 1)
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
        beside = Beside(tmp_path / str(seed), rng, by_network=seed // 2 % 2 == 1)
        with Driver(tmp_path / f"d{seed}") as killed:
            killed.faults.plan(rng.choice(["commit-before", "commit-after"]), rng.randint(0, 1), jvm=True)
            first = beside.copy(killed)
        beside.copy(driver).must_be_ok(seed)
        counts.trial(beside.stop(), f"seed {seed}", hit=first.died)
    assert counts.hits == counts.trials
