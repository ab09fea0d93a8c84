"""RocketFlow's NameServer and a broker, and what the tests of clients ask of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rocketflow.client import ClientOptions, ProducerOptions
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.remoting.bodies import MessageQueue
from rocketflow_store.spi.messages import Message, ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.servers import RunningServer, direct, put_batch, running, running_broker, wait_for_a_broker

BROKER: Final = "broker-a"
SETTINGS: Final = (
    "enablePropertyFilter=true",
    "recallMessageEnable=true",
    "messageDelayLevel=1s 1s 1s 1s 1s 1s",
    "transactionTimeOut=300",
    "transactionCheckInterval=100",
    "transactionCheckMax=1000",
)
"""The broker's settings: all that tests of clients need, in one broker for all of them."""


class ClientCluster:
    """Both servers, new names of topics and groups, messages, and requests of an operator."""

    def __init__(self, names: RunningServer, broker: RunningServer) -> None:
        self.names, self.broker = names, broker
        self._numbers = itertools.count()

    @property
    def client_options(self) -> ClientOptions:
        """Return the options of a client of the cluster, which has an id of its own."""
        return ClientOptions(name_servers=self.names.address, timeout_s=30)

    def new_name(self) -> str:
        """Return a name for a topic or group that no other test uses."""
        return f"name{next(self._numbers)}"

    async def new_topic(self, queues: int = 2) -> str:
        """Create a topic and return its name."""
        topic = self.new_name()
        await self.create_topic(topic, queues)
        return topic

    async def send(
        self, topic: str, bodies: Sequence[str], queue_id: int = 0, properties: Mapping[str, str] | None = None
    ) -> None:
        """Send bodies to a queue, one batch."""
        async with direct() as client:
            messages = [Message(topic, one.encode(), properties=dict(properties or {})) for one in bodies]
            await put_batch(client, self.broker.address, queue_id, messages)

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


def queue_of(topic: str, queue_id: int = 0) -> MessageQueue:
    """Return a queue of the cluster's broker."""
    return MessageQueue(topic, BROKER, queue_id)


async def messages_of(admin: AdminClient, queue: MessageQueue, end: int) -> list[ReceivedMessage]:
    """Return the messages [0, end) of a queue."""
    found: list[ReceivedMessage] = []
    while len(found) < end:
        pulled = await admin.pull(queue, len(found))
        assert pulled.messages, (queue, pulled)
        found += pulled.messages
    return found


@contextmanager
def client_cluster(home: Path) -> Iterator[ClientCluster]:
    """Run a NameServer and a broker."""
    with (
        running("namesrv", home / "names", "--set", f"kvConfigPath={home}/kv.json") as names,
        running_broker(home / "broker", f"namesrvAddr={names.address}", *SETTINGS) as broker,
    ):
        wait_for_a_broker(names.address)
        yield ClientCluster(names, broker)
