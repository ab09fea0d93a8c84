"""Messages that are delivered later, and recalls of them."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, sync
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.produce.errors import BadMessageError, SendFailedError
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


def test_delayed_send_names_a_queue_of_its_topic_and_the_broker_knows_the_last_level(cluster: ClientCluster) -> None:
    """The cluster's broker has 6 levels."""

    async def main() -> None:
        topic = await cluster.new_topic(1)
        async with Producer(cluster.options()) as producer:
            for message in (Message(topic, b"6", delay_level=6), Message(topic, b"19", delay_level=19)):
                assert (await producer.send(message)).queue.queue_id == 0
            assert (await producer.send(Message(topic, b"at", delay_s=1))).queue.queue_id == 0
        async with asyncio.timeout(60):
            while len(found := await cluster.stored(topic)) < 3:
                await asyncio.sleep(0.1)
        levels = {one.body: one.properties.get("DELAY") for one in found}
        assert levels == {b"6": "6", b"19": "6", b"at": None}

    run(main())


def test_invalid_time_is_refused_at_once(cluster: ClientCluster) -> None:
    async def main() -> None:
        topic = await cluster.new_topic(1)
        async with Producer(cluster.options()) as producer:
            for properties in ({"TIMER_DELIVER_MS": "abc"}, {"TIMER_DELAY_SEC": "999999999"}):
                with pytest.raises(SendFailedError, match=r"after 1 attempt: .* was answered with 13"):
                    await producer.send(Message(topic, b"b", properties=properties))

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
