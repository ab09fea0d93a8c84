"""Row M08: the NameServer is killed and comes back empty, a broker dies meanwhile, a broker says nothing any more."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions
from rocketflow.client.errors import ClientError
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.checker import Place, check
from tests.support.ports import free_port
from tests.support.results import Tally, measured
from tests.support.servers import RunningServer, direct, no_traceback, running, running_broker
from tests.support.trials import LEVEL, seeds
from tests.support.workload import body

pytestmark = pytest.mark.slow

LATEST_SECONDS = 200.0
"""The end of every wait here; the promises of the row (30 s and 130 s) are reported, not asserted."""


def producer(names: str) -> Producer:
    """Return a producer that asks for routes each second."""
    return Producer(ProducerOptions(group="p", name_servers=names, route_refresh_s=1.0, heartbeat_s=1.0))


class Sending:
    """A producer that sends one message after the other, and the places that were acknowledged."""

    def __init__(self) -> None:
        self.acked: dict[int, Place] = {}

    @asynccontextmanager
    async def running(self, names: str) -> AsyncIterator[None]:
        """Send until the end of the block; raise what a send raised."""
        async with producer(names) as one:
            sending = asyncio.ensure_future(self._send(one))
            try:
                yield
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending

    async def more(self, count: int) -> None:
        """Wait until `count` more messages are acknowledged."""
        goal = len(self.acked) + count
        async with asyncio.timeout(LATEST_SECONDS):
            while len(self.acked) < goal:
                await asyncio.sleep(0.01)

    async def _send(self, one: Producer) -> None:
        while True:
            number = len(self.acked)
            found = await one.send(Message("t", body(number), keys=f"k{number}"))
            self.acked[number] = found.queue.queue_id, found.queue_offset


async def brokers_of(names: str) -> set[str]:
    """Return the names of the brokers that a NameServer knows; none while it does not answer."""
    async with direct(names, timeout_s=3.0) as client:
        try:
            return set((await client.cluster_info()).broker_addr_table)
        except (ClientError, OSError):
            return set()


async def seconds_until(names: str, wanted: set[str]) -> float:
    """Return the time in s until a NameServer knows these brokers; it never knows another one meanwhile."""
    began = time.monotonic()
    async with asyncio.timeout(LATEST_SECONDS):
        while (found := await brokers_of(names)) != wanted:
            assert found <= wanted, f"stale brokers: {found - wanted}"
            await asyncio.sleep(0.1)
    return time.monotonic() - began


async def kill_and_return(names: RunningServer, home: Path, stale: RunningServer, sending: Sending, seed: int) -> float:
    """Kill the NameServer and the stale broker under load; return the time until the routes are right again."""
    await sending.more(random.Random(seed).randrange(1, 30))
    names.kill()
    await sending.more(50)  # by the routes that the producer has
    stale.kill()
    (home / "kv.json").unlink(missing_ok=True)
    names.start()
    names.wait_until_ready()
    took = await seconds_until(names.address, {"a"})
    await sending.more(50)
    return took


async def outage(
    names: RunningServer, broker: RunningServer, stale: RunningServer, sending: Sending, seed: int
) -> float:
    """Send before, in and after the time without a NameServer; return the time until the routes are right again."""
    async with direct(names.address) as client:
        await client.create_topic(broker.address, TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=2))
    assert await brokers_of(names.address) == {"a", "b"}
    async with sending.running(names.address):
        took = await kill_and_return(names, names.log.parent, stale, sending, seed)
        async with producer(names.address) as late:  # a client that starts now finds the topic
            assert {one.broker_name for one in await late.queues("t")} == {"a"}
    return took


@pytest.mark.skipif(LEVEL == "sample", reason="waits for a registration: RF_FAULTS=1 runs it")
def test_a_name_server_comes_back_empty(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("M08", "NameServer killed")
    for seed in seeds(4, 10):
        home, port, sending = tmp_path / str(seed), free_port(), Sending()
        home.mkdir()
        here = [f"namesrvAddr=127.0.0.1:{port}", "registerNameServerPeriod=10000"]
        with (
            running("namesrv", home, "--set", f"kvConfigPath={home}/kv.json", port=port) as names,
            running_broker(home / "a", "brokerName=a", *here) as broker,
            running_broker(home / "b", "brokerName=b", *here) as stale,
        ):
            took = run(outage(names, broker, stale, sending, seed))
            measured("M08 routes after the NameServer's restart", seconds=[round(took, 2)])
            broker.stop_in_order()
            names.stop_in_order()
            no_traceback(stale)
        attempted = set(range(len(sending.acked) + 1))
        counts.trial(check(home / "a/store", sending.acked, attempted), f"seed {seed}")


@pytest.mark.skipif(LEVEL == "sample", reason="takes two minutes: RF_FAULTS=1 runs it")
def test_a_broker_that_says_nothing_any_more_is_removed(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("M08", "broker stopped")
    port = free_port()
    here = [f"namesrvAddr=127.0.0.1:{port}", "registerNameServerPeriod=10000"]
    with (
        running("namesrv", tmp_path, "--set", f"kvConfigPath={tmp_path}/kv.json", port=port) as names,
        running_broker(tmp_path / "a", "brokerName=a", *here) as broker,
        running_broker(tmp_path / "b", "brokerName=b", *here) as silent,
    ):

        async def trial() -> float:
            assert await brokers_of(names.address) == {"a", "b"}
            silent.process.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            async with asyncio.timeout(LATEST_SECONDS):
                while await brokers_of(names.address) != {"a"}:
                    await asyncio.sleep(1)
            return time.monotonic() - began

        try:
            measured("M08 a silent broker is removed", seconds=[round(run(trial()), 1)])
        finally:
            silent.process.send_signal(signal.SIGCONT)

        async def again() -> None:
            await seconds_until(names.address, {"a", "b"})

        run(again())
        for one in (silent, broker, names):
            one.stop_in_order()
    counts.trial(None, "120 s")
