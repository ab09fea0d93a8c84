"""Messages that are delivered later, and recalls of them."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, sync
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.produce.errors import BadMessageError
from tests.support.client_cluster import ClientCluster


def test_delays_and_times_are_those_of_the_message(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("later", 1)
        begin = int(time.time() * 1000)
        async with Producer(cluster.options()) as producer:
            await producer.send(Message("later", b"level", delay_level=1))
            await producer.send(Message("later", b"ms", delay_ms=1_500))
            await producer.send(Message("later", b"s", delay_s=2))
            await producer.send(Message("later", b"at", deliver_at_ms=begin + 2_500))
            await producer.send(Message("later", b"now"))
        async with asyncio.timeout(60):
            while len(found := await cluster.stored("later")) < 5:
                await asyncio.sleep(0.1)
        after = {one.body: one.store_timestamp - begin for one in found}
        assert min(after, key=lambda body: after[body]) == b"now"
        for body, least in ((b"level", 1_000), (b"ms", 1_000), (b"s", 2_000), (b"at", 2_000)):
            assert after[body] >= least - 500, after

    run(main())


def test_a_recalled_message_is_not_delivered(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("recalled", 1)
        async with Producer(cluster.options()) as producer:
            kept = await producer.send(Message("recalled", b"kept", delay_s=4))
            recalled = await producer.send(Message("recalled", b"recalled", delay_s=4))
            assert recalled.recall_handle is not None
            assert kept.recall_handle is not None
            assert await producer.recall("recalled", recalled.recall_handle) == recalled.message_id
            with pytest.raises(BadMessageError, match="'recalled': recall handle is invalid"):
                await producer.recall("recalled", "nonsense")
            with pytest.raises(RequestRefusedError):
                await producer.recall("later", kept.recall_handle)
        async with asyncio.timeout(60):
            while not (found := await cluster.stored("recalled")):
                await asyncio.sleep(0.1)
        assert [one.body for one in found] == [b"kept"]

    run(main())


def test_a_sync_producer_recalls(cluster: ClientCluster) -> None:
    run(cluster.create_topic("plainly-recalled"))
    with sync.Producer(cluster.options()) as producer:
        result = producer.send(Message("plainly-recalled", b"b", delay_s=30))
        assert producer.recall("plainly-recalled", result.recall_handle or "") == result.message_id
