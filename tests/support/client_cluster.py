"""RocketFlow's NameServer and a broker, and what the tests of clients ask of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rocketflow.client import ClientOptions, ProducerOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.received import ReceivedMessage
from rocketflow.remoting.bodies import MessageQueue, TopicConfig
from tests.support.servers import RunningServer, running, running_broker, wait_for_a_broker

BROKER = "broker-a"


class ClientCluster:
    """The addresses of both servers, and requests of an operator."""

    def __init__(self, names: RunningServer, broker: RunningServer) -> None:
        self.names, self.broker = names, broker

    def options(self, **more: Any) -> ProducerOptions:
        """Return the options of a producer."""
        return ProducerOptions(**{"group": "tests", "name_servers": self.names.address, **more})

    def admin(self) -> AdminClient:
        """Return a client for operators."""
        return AdminClient(ClientOptions(name_servers=self.names.address))

    async def create_topic(self, topic: str, queues: int = 4, perm: int = 6) -> None:
        """Create a topic, or change it."""
        async with self.admin() as admin:
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
            await admin.create_topic(self.broker.address, config)

    async def stored(self, topic: str) -> list[ReceivedMessage]:
        """Return the messages of a topic, queue after queue."""
        found: list[ReceivedMessage] = []
        async with self.admin() as admin:
            for queue, bounds in (await admin.topic_status(topic)).items():
                found += await messages_of(admin, queue, bounds.max_offset)
        return found


async def messages_of(admin: AdminClient, queue: MessageQueue, end: int) -> list[ReceivedMessage]:
    """Return the messages [0, end) of a queue."""
    found: list[ReceivedMessage] = []
    while len(found) < end:
        pulled = await admin.pull(queue, len(found))
        assert pulled.messages, (queue, pulled)
        found += pulled.messages
    return found


@contextmanager
def client_cluster(home: Path, *settings: str) -> Iterator[ClientCluster]:
    """Run a NameServer and a broker."""
    with (
        running("namesrv", home / "names", "--set", f"kvConfigPath={home}/kv.json") as names,
        running_broker(home / "broker", f"namesrvAddr={names.address}", *settings) as broker,
    ):
        wait_for_a_broker(names.address)
        yield ClientCluster(names, broker)
