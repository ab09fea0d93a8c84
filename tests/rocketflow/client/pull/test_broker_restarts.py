"""A pull consumer goes on after its broker was killed and started again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client import ConsumeFrom, PullConsumer, PullOptions
from tests.support.client_cluster import ClientCluster, queue_of
from tests.support.servers import running, running_broker, wait_for_a_broker


def test_consumer_reads_on_when_its_broker_was_killed_and_started_again(tmp_path: Path) -> None:
    async def read() -> list[bytes]:
        found: list[bytes] = []
        settings = f"namesrvAddr={names.address}"
        with running_broker(tmp_path / "broker", settings) as broker:
            await asyncio.to_thread(wait_for_a_broker, names.address)
            servers = ClientCluster(names, broker)
            topic = await servers.new_topic()
            await servers.send(topic, ["a", "b"])
            consumer = PullConsumer(
                PullOptions(name_servers=names.address, group="g", start=ConsumeFrom.FIRST, timeout_s=30, suspend_s=1)
            )
            await consumer.start()
            await consumer.assign([queue_of(topic)])
            found += [one.body for one in await consumer.poll(30, max_messages=1)]
            broker.kill()
            found += [one.body for one in await consumer.poll(30)]  # it was pulled before
            assert await consumer.poll(0.5) == []
        with running_broker(tmp_path / "broker", settings, port=broker.port) as again:
            servers = ClientCluster(names, again)
            await servers.send(topic, ["c"])
            async with asyncio.timeout(120):
                while len(found) < 3:
                    found += [one.body for one in await consumer.poll(5)]
            await consumer.commit()
            assert await consumer.committed(queue_of(topic)) == 3
            await consumer.close()
        return found

    with running("namesrv", tmp_path / "names") as names:
        assert run(read()) == [b"a", b"b", b"c"]
