"""Push consumers while servers, clients and connections fail: what was acknowledged is consumed, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.errors import ClientError
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.between import between
from tests.support.processes import end
from tests.support.pushing import (
    BROKER_SETTINGS,
    Noted,
    committed,
    consuming,
    make_topic,
    options,
    put,
    small_cluster,
    until,
)
from tests.support.servers import RunningServer, running_broker
from tests.support.trials import LEVEL, environment, seeds


class Feeder:
    """Sends numbers to a topic, each until it is acknowledged, from `start` to `stop`."""

    def __init__(self, names: str, topic: str) -> None:
        self._names, self._topic = names, topic
        self.acknowledged: list[str] = []
        self._task: asyncio.Task[None] | None = None
        self._is_enough = False

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._feed())

    async def stop(self) -> None:
        self._is_enough = True
        assert self._task is not None
        await self._task

    def forget(self) -> None:
        """Stop without a wait for what is sent now: its server is away."""
        assert self._task is not None
        self._task.cancel()

    async def _feed(self) -> None:
        number = 0
        while not self._is_enough:
            bodies = [str(number + one) for one in range(4)]
            try:
                await put(self._names, self._topic, bodies)
            except ClientError:
                await asyncio.sleep(0.05)  # some may be stored: they are sent again, and consumed twice
                continue
            self.acknowledged += bodies
            number += 4
            await asyncio.sleep(0.002)


async def until_all(noted: Noted, feeder: Feeder) -> None:
    """Wait until everything that was acknowledged has been consumed."""
    await until(lambda: set(feeder.acknowledged) <= set(noted.bodies))


def test_consumer_goes_on_without_the_name_server(tmp_path: Path) -> None:
    async def consume(names: RunningServer) -> None:
        await make_topic(names.address, "t")
        noted = Noted()
        async with consuming(options(names.address, "g", route_refresh_s=0.2), noted, "t") as consumer:
            await put(names.address, "t", ["before"])
            await until(lambda: noted.bodies == ["before"] and len(consumer.queues()) == 5)
            feeder = Feeder(names.address, "t")
            feeder.start()
            await until(lambda: len(noted.bodies) > 100)
            names.kill()
            count = len(feeder.acknowledged)
            await until(lambda: len(noted.bodies) >= count)
            await asyncio.sleep(0.5)  # routes are refreshed meanwhile
            assert len(consumer.queues()) == 5
            feeder.forget()
        assert set(feeder.acknowledged) <= set(noted.bodies)

    with small_cluster(tmp_path) as (names, _):
        run(consume(names))


@pytest.mark.parametrize("orderly", [True] if LEVEL == "sample" else [False, True])
def test_killed_broker_loses_nothing_that_it_acknowledged(tmp_path: Path, orderly: bool) -> None:
    async def consume(names: str, broker: RunningServer) -> None:
        await make_topic(names, "t")
        noted, feeder = Noted(), Feeder(names, "t")
        async with consuming(options(names, "g", orderly=orderly), noted, "t"):
            feeder.start()
            await until(lambda: len(noted.bodies) > 100)
            await asyncio.to_thread(broker.kill)
            again = running_broker(tmp_path / "broker", f"namesrvAddr={names}", *BROKER_SETTINGS, port=broker.port)
            await asyncio.to_thread(stack.enter_context, again)
            count = len(feeder.acknowledged)
            await until(lambda: len(feeder.acknowledged) > count + 200)
            await feeder.stop()
            await until_all(noted, feeder)
        assert sum((await committed(names, "g", "t")).values()) <= len(noted.messages)
        if orderly:
            assert_ordered(noted.messages)

    with small_cluster(tmp_path) as (names, broker), ExitStack() as stack:
        run(consume(names.address, broker))


CONSUMER = """
import asyncio, json, sys
from rocketflow.client import ConsumeFrom, PushConsumer, PushOptions

async def main(names):
    async def listener(messages, context):
        print(json.dumps([one.body.decode() for one in messages]), flush=True)

    consumer = PushConsumer(PushOptions(name_servers=names, group="g-killed", consume_from=ConsumeFrom.FIRST), listener)
    await consumer.subscribe("killed")
    async with consumer:
        await asyncio.sleep(3600)

asyncio.run(main(sys.argv[1]))
"""


def test_another_client_takes_over_from_a_killed_one(names: str, tmp_path: Path) -> None:
    def consumed() -> list[str]:
        lines = (tmp_path / "consumed").read_text().splitlines(keepends=True)
        return [body for line in lines if line.endswith("\n") for body in json.loads(line)]

    async def consume() -> None:
        await make_topic(names, "killed")
        noted, feeder = Noted(), Feeder(names, "killed")
        with (tmp_path / "consumed").open("wb") as output:
            child = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, "-c", CONSUMER, names],
                stdout=output,
                env=environment(),
                stdin=subprocess.DEVNULL,
            )
        try:
            feeder.start()
            async with consuming(options(names, "g-killed"), noted, "killed"):
                await until(lambda: len(noted.bodies) > 50 and len(consumed()) > 50)
                child.kill()
                await asyncio.to_thread(child.wait)
                await until(lambda: {one.queue_id for one in noted.messages} == {0, 1, 2, 3})
                await feeder.stop()
                await until(lambda: set(feeder.acknowledged) <= {*noted.bodies, *consumed()})
        finally:
            if child.poll() is None:
                end(child, 5)

    run(consume())


@pytest.mark.parametrize("seed", seeds(6, 60))
def test_connections_that_are_cut_at_random_bytes_lose_nothing(
    servers: tuple[RunningServer, RunningServer], seed: int
) -> None:
    names, broker = servers
    chance = random.Random(seed)
    orderly = chance.random() < 0.5
    print(f"seed {seed}, orderly {orderly}")

    cuts = iter([int(10 ** chance.uniform(0, 4.5)) for _ in range(12)])

    def bytes_until_cut() -> int | None:
        return next(cuts, None)

    async def act(_message: ReceivedMessage, _context: object) -> None:
        await asyncio.sleep(chance.choice([0, 0, 0.001]))

    async def consume(proxy: str, count: Callable[[], int]) -> None:
        topic = f"cut-{seed}"
        await make_topic(names.address, topic)
        noted, feeder = Noted(act), Feeder(names.address, topic)
        feeder.start()
        made = options(proxy, f"g-cut-{seed}", orderly=orderly, timeout_s=1.0)
        async with consuming(made, noted, topic):
            await until(lambda: len(feeder.acknowledged) > 600 and count() >= 8)
            await feeder.stop()
            await until_all(noted, feeder)
        if orderly:
            assert_ordered(noted.messages)
        print(f"{count()} cuts, {len(noted.messages)} consumed of {len(feeder.acknowledged)}")

    with between(names.port, broker.port, bytes_until_cut) as (names_proxy, broker_proxy):
        run(consume(names_proxy.address, lambda: broker_proxy.cuts))


def assert_ordered(messages: list[ReceivedMessage]) -> None:
    """Assert that each queue's messages came in order, except that the queue started again at an earlier one."""
    seen: dict[int, int] = Counter()
    for one in messages:
        assert one.queue_offset <= seen[one.queue_id], "a message was skipped"
        seen[one.queue_id] = max(seen[one.queue_id], one.queue_offset + 1)
