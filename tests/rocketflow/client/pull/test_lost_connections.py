"""Pull consumers whose connections end at any byte: each message is returned once, in its queue's order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import pytest

from rocketflow.aio.loop import run
from rocketflow.arrow import pull_arrow
from rocketflow.client import ConsumeFrom, PullConsumer, PullOptions
from rocketflow.client.errors import ClientError
from tests.support.between import between
from tests.support.client_cluster import ClientCluster, queue_of
from tests.support.trials import LEVEL, seeds

CUTS = 8 if LEVEL != "sample" else 4
MESSAGES = 300
PATIENCE_S = 120

T = TypeVar("T")
Reads = Callable[[PullConsumer], Awaitable[list[tuple[int, bytes]]]]


async def polls(consumer: PullConsumer) -> list[tuple[int, bytes]]:
    return [(one.queue_id, one.body) for one in await consumer.poll(1)]


async def pulls_columns(consumer: PullConsumer) -> list[tuple[int, bytes]]:
    batches = await pull_arrow(consumer, ["queueId", "body"], timeout_s=1, max_bytes=20_000)
    return [(row["queueId"], row["body"]) for batch in batches for row in batch.to_pylist()]


async def repeated(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of a call that a cut connection may fail, once it succeeds."""
    while True:
        with suppress(ClientError):
            return await call()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("reads", [polls, pulls_columns])
@pytest.mark.parametrize("seed", seeds(6, 60))
def test_connections_that_are_cut_at_random_bytes_lose_and_repeat_nothing(
    servers: ClientCluster, seed: int, reads: Reads
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    cuts = iter([int(10 ** chance.uniform(0, 4.5)) for _ in range(CUTS)])
    bodies = [[f"{number}:" + "x" * chance.choice((0, 300, 2_000)) for number in range(MESSAGES)] for _ in range(2)]

    async def read(name_servers: str) -> None:
        topic = await servers.new_topic()
        queues = [queue_of(topic, queue_id) for queue_id in range(2)]
        for queue in queues:
            await servers.send(topic, bodies[queue.queue_id], queue.queue_id)
        options = PullOptions(
            group=servers.new_name(),
            start=ConsumeFrom.FIRST,
            name_servers=name_servers,
            auto_commit=False,
            pull_batch=8,
            timeout_s=2,
        )
        found: dict[int, list[str]] = {0: [], 1: []}
        async with PullConsumer(options) as consumer, asyncio.timeout(PATIENCE_S):
            await repeated(lambda: consumer.assign(queues))
            while sum(map(len, found.values())) < 2 * MESSAGES:
                for queue_id, body in await reads(consumer):
                    found[queue_id].append(body.decode())
            assert await reads(consumer) == []
            await repeated(consumer.commit)
            committed = [await repeated(partial(consumer.committed, queue)) for queue in queues]
        assert found == dict(enumerate(bodies))
        assert committed == [MESSAGES, MESSAGES]

    with between(servers.names.port, servers.broker.port, lambda: next(cuts, None)) as (names_proxy, broker_proxy):
        run(read(names_proxy.address))
        assert broker_proxy.cuts
        print(f"{broker_proxy.cuts} cuts")
