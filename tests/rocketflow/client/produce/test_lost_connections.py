"""Connections that end at any byte, and brokers that are killed: what was acknowledged is stored."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, ProducerOptions, SendResult
from rocketflow.client.produce.errors import SendFailedError
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.client_cluster import BROKER, ClientCluster, messages_of
from tests.support.ports import free_port
from tests.support.scripted_broker import ScriptedBroker, scripted
from tests.support.servers import RunningServer, running_broker
from tests.support.trials import FULL, SEED

CUTS = 2_000 if FULL else 150
MESSAGES = 3_000 if FULL else 600


class CuttingProxy:
    """Passes connections on to a broker and ends each after a random number of bytes of both directions."""

    def __init__(self, port: int, rng: random.Random) -> None:
        self._port, self._rng = port, rng
        self.cuts = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._port)
        left = [self._rng.randrange(1, 6_000)]
        ways = [self._pass(reader, broker_writer, left), self._pass(broker_reader, writer, left)]
        tasks = [asyncio.ensure_future(one) for one in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in tasks:
            one.cancel()
        self.cuts += left[0] <= 0
        for stream in (writer, broker_writer):
            stream.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]) -> None:
        with suppress(OSError):
            while left[0] > 0 and (data := await reader.read(65536)):
                writer.write(data[: left[0]])
                await writer.drain()
                left[0] -= len(data)


def test_connections_cut_at_random_bytes_lose_nothing_that_was_acknowledged(cluster: ClientCluster) -> None:
    print(f"seed {SEED}")
    topic = "cut"

    async def main() -> None:
        await cluster.create_topic(topic, 2)
        proxy = CuttingProxy(cluster.broker.port, random.Random(SEED))
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        acknowledged: set[bytes] = set()
        impossible: set[bytes] = set()
        attempted = 0
        async with scripted(ScriptedBroker()) as names:
            names.routes = {BROKER: f"127.0.0.1:{server.sockets[0].getsockname()[1]}"}
            options = ProducerOptions(group="cut", name_servers=names.address, retries=1, compress_above=1_000)
            async with Producer(options) as producer:
                rng = random.Random(SEED)
                while proxy.cuts < CUTS:
                    sizes = [rng.choice((10, 500, 3_000)) for _ in range(8)]
                    messages = [
                        Message(topic, b"%d:" % (attempted + at) + rng.randbytes(n)) for at, n in enumerate(sizes)
                    ]
                    attempted += len(messages)
                    sends = (producer.send(one, timeout_s=30) for one in messages)
                    for message, found in zip(messages, await asyncio.gather(*sends, return_exceptions=True)):
                        if isinstance(found, SendResult):
                            acknowledged.add(message.body)
                        else:
                            assert isinstance(found, SendFailedError), found
                            if not found.may_be_stored:
                                impossible.add(message.body)
        server.close()
        stored = [one.body for one in await cluster.stored(topic)]
        assert acknowledged <= set(stored)
        assert not impossible & set(stored)
        print(f"{attempted} sends, {len(acknowledged)} acknowledged, {len(stored)} stored, {proxy.cuts} cuts")

    run(main())


async def send_numbers(producer: Producer, topic: str, count: int, acknowledged: dict[bytes, SendResult]) -> None:
    """Send numbered messages, each until it is acknowledged."""
    numbers = iter(range(count))

    async def send() -> None:
        for number in numbers:
            message = Message(topic, b"%d" % number)
            while message.body not in acknowledged:
                with suppress(SendFailedError):
                    acknowledged[message.body] = await producer.send(message)
                await asyncio.sleep(0.005)

    await asyncio.gather(*(send() for _ in range(16)))


async def create_at(cluster: ClientCluster, broker: RunningServer, topic: str, brokers: int) -> None:
    """Create a topic at a broker and wait until the route has as many brokers."""
    async with cluster.admin() as admin, asyncio.timeout(60):
        config = TopicConfig(topic_name=topic, read_queue_nums=2, write_queue_nums=2)
        await admin.create_topic(broker.address, config)
        while len((await admin.route(topic)).queue_datas) < brokers:
            await asyncio.sleep(0.05)


async def assert_stored(cluster: ClientCluster, queue: MessageQueue, acknowledged: dict[bytes, SendResult]) -> None:
    """Assert that a queue has the messages that were acknowledged as stored in it, where they were."""
    async with cluster.admin() as admin:
        stored = await messages_of(admin, queue, await admin.max_offset(queue))
    for body, result in acknowledged.items():
        if result.queue == queue:
            assert stored[result.queue_offset].body == body
            assert stored[result.queue_offset].message_id == result.message_id


@pytest.mark.slow
def test_a_broker_killed_under_load_loses_nothing_that_was_acknowledged(cluster: ClientCluster, tmp_path: Path) -> None:
    topic, port = "killed", free_port((-2, 1))
    settings = ("brokerName=broker-c", f"namesrvAddr={cluster.names.address}")
    acknowledged: dict[bytes, SendResult] = {}

    async def main() -> None:
        with running_broker(tmp_path, *settings, port=port) as broker:
            await create_at(cluster, broker, topic, 1)
            async with Producer(cluster.options()) as producer:
                sending = asyncio.ensure_future(send_numbers(producer, topic, MESSAGES, acknowledged))
                while len(acknowledged) < MESSAGES // 3:
                    await asyncio.sleep(0.01)
                broker.kill()
                before = len(acknowledged)
                with running_broker(tmp_path, *settings, port=port):
                    await sending
                    assert before < len(acknowledged) == MESSAGES
                    for queue_id in range(2):
                        await assert_stored(cluster, MessageQueue(topic, "broker-c", queue_id), acknowledged)

    run(main())


def test_sends_go_on_at_another_broker_when_one_is_killed(cluster: ClientCluster, tmp_path: Path) -> None:
    topic = "two-brokers"
    acknowledged: dict[bytes, SendResult] = {}

    async def main() -> None:
        await cluster.create_topic(topic, 2)
        settings = ("brokerName=broker-b", f"namesrvAddr={cluster.names.address}")
        with running_broker(tmp_path, *settings) as other:
            await create_at(cluster, other, topic, 2)
            async with Producer(cluster.options(send_timeout_s=30.0)) as producer:
                assert {one.broker_name for one in await producer.queues(topic)} == {BROKER, "broker-b"}
                sending = asyncio.ensure_future(send_numbers(producer, topic, MESSAGES, acknowledged))
                while len(acknowledged) < MESSAGES // 3:
                    await asyncio.sleep(0.01)
                other.kill()
                await sending
        assert len(acknowledged) == MESSAGES
        assert {one.queue.broker_name for one in acknowledged.values()} == {BROKER, "broker-b"}
        for queue_id in range(2):
            await assert_stored(cluster, MessageQueue(topic, BROKER, queue_id), acknowledged)

    run(main())
