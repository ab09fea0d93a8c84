"""Messages that are sent one by one and stored as batches."""

from __future__ import annotations

import asyncio

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, SendResult, SendStatus
from rocketflow.client.produce.auto_batches import results_of
from rocketflow.client.produce.errors import BadMessageError
from rocketflow.remoting.bodies import MessageQueue
from tests.support.client_cluster import ClientCluster


def test_messages_of_a_moment_become_batches_and_each_has_its_own_result(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("together")
        options = cluster.options(batch_linger_s=0.02, batch_bytes=2_000)
        async with Producer(options) as producer:
            messages = [Message("together", b"%d" % number, tags="t") for number in range(200)]
            results = await asyncio.gather(*(producer.send(one) for one in messages))
        found = {one.message_id: one for one in await cluster.stored("together")}
        assert len(found) == 200
        for message, result in zip(messages, results):
            stored = found[result.message_id]
            assert stored.body == message.body
            assert (stored.queue_id, stored.queue_offset) == (result.queue.queue_id, result.queue_offset)
            assert stored.offset_message_id == result.offset_message_id
        runs = sorted((one.queue.queue_id, one.queue_offset) for one in results)
        assert len({queue_id for queue_id, _ in runs}) == 4

    run(main())


def test_what_cannot_be_in_a_batch_goes_alone(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("apart", 1)
        async with Producer(cluster.options(batch_linger_s=60.0)) as producer:
            queue = (await producer.queues("apart"))[0]
            large = await producer.send(Message("apart", bytes(5_000)))
            chosen = await producer.send(Message("apart", b"b"), to=queue)
            delayed = await producer.send(Message("apart", b"b", delay_level=1))
            timed = await producer.send(Message("apart", b"b"), timeout_s=5)
            assert {one.status for one in (large, chosen, delayed, timed)} == {SendStatus.SEND_OK}
            waiting = asyncio.ensure_future(producer.send(Message("apart", b"last")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert (await waiting).status is SendStatus.SEND_OK  # a close sends what waits

    run(main())


def test_one_bad_message_fails_alone(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("mixed")
        async with Producer(cluster.options(batch_linger_s=0.01)) as producer:
            good = [producer.send(Message("mixed", b"%d" % number)) for number in range(5)]
            bad = producer.send(Message("mixed", b"b", properties={"a\x01": "b"}))
            results = await asyncio.gather(*good, bad, return_exceptions=True)
        assert [isinstance(one, SendResult) for one in results] == [True] * 5 + [False]
        assert isinstance(results[-1], BadMessageError)
        assert len(await cluster.stored("mixed")) == 5

    run(main())


@pytest.mark.parametrize("places", ["A,B", "A"])
def test_results_of_a_batch_follow_each_other(places: str) -> None:
    messages = [Message("t", b"a", unique_key="U0"), Message("t", b"b", unique_key="U1")]
    result = SendResult(SendStatus.SEND_OK, "U0,U1", places, MessageQueue("t", "a", 3), 70)
    first, second = results_of(result, messages)
    assert (first.message_id, first.queue_offset, first.offset_message_id) == ("U0", 70, "A")
    assert (second.message_id, second.queue_offset) == ("U1", 71)
    assert second.offset_message_id == ("B" if places == "A,B" else "A")
