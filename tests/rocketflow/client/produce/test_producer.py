"""Producers, asyncio and synchronous, against RocketFlow's NameServer and broker."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, SendStatus, sync
from rocketflow.client.errors import ClientStateError, NoNameServerError, NoRoomError, NoRouteError
from rocketflow.client.produce import by_sharding_key
from rocketflow.client.produce.errors import BadMessageError, SendFailedError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import Compression
from tests.support.client_cluster import BROKER, ClientCluster
from tests.support.ports import free_port


def test_a_message_is_stored_with_all_that_it_has(cluster: ClientCluster) -> None:
    message = Message("whole", b"body", tags="red", keys=["k1", "k2"], properties={"colour": "日本"}, flag=7)

    async def main() -> None:
        await cluster.create_topic("whole")
        began = int(time.time() * 1000)
        async with Producer(cluster.options()) as producer:
            result = await producer.send(message)
        assert result.status is SendStatus.SEND_OK
        assert result.message_id == message.unique_key
        (found,) = await cluster.stored("whole")
        assert (found.body, found.flag, found.tags, found.keys) == (b"body", 7, "red", ["k1", "k2"])
        assert found.properties["colour"] == "日本"
        assert found.message_id == result.message_id
        assert found.offset_message_id == result.offset_message_id
        assert (found.queue_id, found.queue_offset) == (result.queue.queue_id, result.queue_offset)
        assert began <= found.born_timestamp <= time.time() * 1000

    run(main())


def test_queues_take_turns_and_a_selector_keeps_a_key_in_its_queue(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("turns", 3)
        async with Producer(cluster.options()) as producer:
            queues = await producer.queues("turns")
            assert queues == [MessageQueue("turns", BROKER, number) for number in range(3)]
            turns = [await producer.send(Message("turns", b"b")) for _ in range(6)]
            assert Counter(one.queue for one in turns) == dict.fromkeys(queues, 2)
            keyed = [
                await producer.send(Message("turns", b"b", sharding_key="x"), to=by_sharding_key) for _ in range(5)
            ]
            assert len({one.queue for one in keyed}) == 1
            chosen = await producer.send(Message("turns", b"b"), to=queues[2])
            last = await producer.send(Message("turns", b"b"), to=lambda found, message: found[-1])
            assert (chosen.queue, last.queue) == (queues[2], queues[2])
            with pytest.raises(BadMessageError, match="another topic"):
                await producer.send(Message("turns", b"b"), to=MessageQueue("other", BROKER, 0))

    run(main())


def test_a_topic_that_a_send_creates_has_the_queues_that_the_producer_asks_for(cluster: ClientCluster) -> None:
    async def main() -> None:
        async with Producer(cluster.options(queues_of_new_topics=2)) as producer:
            results = [await producer.send(Message("created", b"b")) for _ in range(4)]
        assert {one.queue.queue_id for one in results} == {0, 1}
        async with cluster.admin() as admin:
            assert len(await admin.topic_status("created")) == 2

    run(main())


def test_a_batch_is_stored_in_order_in_one_queue(cluster: ClientCluster) -> None:
    messages = [Message("batch", b"%d" % number, tags=f"t{number}") for number in range(100)]

    async def main() -> None:
        await cluster.create_topic("batch")
        async with Producer(cluster.options()) as producer:
            result = await producer.send_batch(messages)
        found = await cluster.stored("batch")
        assert [(one.body, one.tags, one.message_id) for one in found] == [
            (one.body, one.tags, one.unique_key) for one in messages
        ]
        assert {one.queue_id for one in found} == {result.queue.queue_id}
        assert result.message_id.split(",") == [one.message_id for one in found]
        assert result.offset_message_id.split(",") == [one.offset_message_id for one in found]

    run(main())


@pytest.mark.parametrize("kind", Compression)
def test_large_bodies_are_compressed(cluster: ClientCluster, kind: Compression) -> None:
    small, large, huge = b"s" * 4095, b"l" * 4096, os.urandom(150_000) + bytes(150_000)
    topic = f"packed-{kind.name}"

    async def main() -> None:
        await cluster.create_topic(topic, 1)
        async with Producer(cluster.options(compression=kind)) as producer:
            for body in (small, large, huge):
                await producer.send(Message(topic, body))
        found = await cluster.stored(topic)
        assert [one.body for one in found] == [small, large, huge]
        assert [one.sys_flag & 0x701 for one in found] == [0, 1 | kind << 8, 1 | kind << 8]
        assert found[1].store_size < 1000

    run(main())


def test_tasks_and_one_way_sends_arrive(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("soon")
        async with Producer(cluster.options()) as producer:
            tasks = [await producer.send_async(Message("soon", b"%d" % number)) for number in range(200)]
            results = await asyncio.gather(*tasks)
            assert {one.status for one in results} == {SendStatus.SEND_OK}
            for number in range(200, 300):
                await producer.send_one_way(Message("soon", b"%d" % number))
            await producer.send(Message("soon", b"300"))  # on the same connection: the others were read before it
        async with asyncio.timeout(30):
            while len(found := await cluster.stored("soon")) < 301:
                await asyncio.sleep(0.02)
        assert sorted(int(one.body) for one in found) == list(range(301))

    run(main())


def test_a_sync_producer_serves_threads(cluster: ClientCluster) -> None:
    run(cluster.create_topic("plain"))
    with sync.Producer(cluster.options()) as producer:
        assert len(producer.queues("plain")) == 4
        first = producer.send(Message("plain", b"0"))
        futures = [producer.send_async(Message("plain", b"%d" % number)) for number in range(1, 50)]
        results = [first, *(one.result() for one in futures)]
        producer.send_one_way(Message("plain", b"50"), to=first.queue)
        batch = producer.send_batch([Message("plain", b"51"), Message("plain", b"52")], to=first.queue)
    assert {one.status for one in [*results, batch]} == {SendStatus.SEND_OK}
    assert sorted(int(one.body) for one in run(cluster.stored("plain"))) == list(range(53))


def test_sends_wait_for_room_in_flight(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("crowded")
        async with Producer(cluster.options(max_in_flight=4)) as producer:
            results = await asyncio.gather(*(producer.send(Message("crowded", b"b")) for _ in range(100)))
            assert len({(one.queue, one.queue_offset) for one in results}) == 100
        os.kill(cluster.broker.process.pid, 19)
        try:
            producer = Producer(cluster.options(max_in_flight=1))
            await producer.start()
            waiting = asyncio.ensure_future(producer.send(Message("crowded", b"b"), timeout_s=60))
            await asyncio.sleep(0)
            with pytest.raises(NoRoomError, match="1 messages with 1 bytes"):
                await producer.send(Message("crowded", b"b"), timeout_s=0.05)
        finally:
            os.kill(cluster.broker.process.pid, 18)
        assert (await waiting).status is SendStatus.SEND_OK
        await producer.close()

    run(main())


def test_one_way_sends_wait_for_a_broker_that_does_not_read(cluster: ClientCluster) -> None:
    mib = 1024 * 1024
    limits = {"max_in_flight": 10, "max_in_flight_bytes": 8 * mib, "compress_above": 100 * mib}
    returned: list[Producer] = []

    async def send(producer: Producer, count: int) -> None:
        for _ in range(count):
            await producer.send_one_way(Message("unread", bytes(mib)))
            returned.append(producer)

    async def main() -> None:
        await cluster.create_topic("unread", 1)
        async with (
            Producer(cluster.options(**limits, send_timeout_s=0.3)) as hasty,
            Producer(cluster.options(**limits, send_timeout_s=60)) as patient,
        ):
            for one in (hasty, patient):
                await one.send(Message("unread", b"the connection is open"), timeout_s=60)
            os.kill(cluster.broker.process.pid, 19)
            try:
                with pytest.raises(NoRoomError, match=r"wait for the server, which has not read them within 0\.3 s"):
                    await send(hasty, 200)
                waiting = [asyncio.ensure_future(send(patient, 1)) for _ in range(40)]
                await asyncio.wait(waiting, timeout=0.3)
                counts = Counter(returned)
                assert 0 < counts[hasty] < 40
                assert 0 < counts[patient] < 40
            finally:
                os.kill(cluster.broker.process.pid, 18)
            await asyncio.gather(*waiting)  # the broker reads again

    run(main())


def test_a_producer_works_on_while_no_name_server_answers(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("away")
        async with Producer(cluster.options(route_refresh_s=0.02)) as producer:
            await producer.send(Message("away", b"0"))
            os.kill(cluster.names.process.pid, 19)
            try:
                for number in range(1, 20):
                    await producer.send(Message("away", b"%d" % number))
            finally:
                os.kill(cluster.names.process.pid, 18)
        assert len(await cluster.stored("away")) == 20

    run(main())


def test_unreachable_servers_are_named(cluster: ClientCluster) -> None:
    address = f"127.0.0.1:{free_port()}"

    async def main() -> None:
        async with Producer(cluster.options(name_servers=address)) as producer:
            with pytest.raises(NoNameServerError, match=address):
                await producer.send(Message("t", b"b"))
        closed = Producer(cluster.options())
        with pytest.raises(ClientStateError, match="not started"):
            await closed.send(Message("t", b"b"))

    run(main())


def test_a_topic_that_is_read_only_has_no_queue_to_send_to(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("closed", perm=4)
        async with Producer(cluster.options()) as producer:
            with pytest.raises(NoRouteError, match="'closed': no broker with a master takes messages"):
                await producer.send(Message("closed", b"b"))

    run(main())


def test_a_message_above_the_brokers_limit_is_refused_at_once(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("large")
        async with Producer(cluster.options(max_message_size=10 << 20, compress_above=1 << 30)) as producer:
            with pytest.raises(SendFailedError, match="after 1 attempt:") as found:
                await producer.send(Message("large", bytes(5 << 20)))
            assert found.value.code == 13
        async with Producer(cluster.options()) as producer:
            with pytest.raises(BadMessageError, match="at most 4,194,304"):
                await producer.send(Message("large", bytes(5 << 20)))
            with pytest.raises(BadMessageError, match="a batch of 5 messages"):
                await producer.send_batch([Message("large", bytes(1 << 20)) for _ in range(5)])
            with pytest.raises(BadMessageError, match="property"):
                await producer.send(Message("large", b"b", properties={"a\x01": "b"}))

    run(main())


def test_the_package_imports_neither_pyspark_nor_pyarrow_nor_numpy() -> None:
    code = (
        "import sys, rocketflow.client as c; c.Producer; import rocketflow.client.sync as s; s.Producer\n"
        "print([one for one in ('pyspark', 'pyarrow', 'numpy') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
