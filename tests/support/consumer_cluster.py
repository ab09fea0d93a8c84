"""A NameServer and a broker for tests of consumers, with what such tests need of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.messages import Message
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue, TopicConfig
from tests.support.servers import RunningServer, direct, put_batch, running, running_broker, wait_for_a_broker

BROKER: Final = "broker-a"


class ConsumerCluster:
    """Servers, new names of topics and groups, and messages."""

    def __init__(self, names: RunningServer, broker: RunningServer) -> None:
        self.names, self.broker = names, broker
        self._numbers = itertools.count()

    @property
    def options(self) -> ClientOptions:
        """Return the options of a client of the cluster, which has an id of its own."""
        return ClientOptions(name_servers=self.names.address, timeout_s=30)

    def new_name(self) -> str:
        """Return a name for a topic or group that no other test uses."""
        return f"name{next(self._numbers)}"

    async def new_topic(self, queues: int = 2) -> str:
        """Create a topic and return its name."""
        topic = self.new_name()
        async with AdminClient(self.options) as admin:
            config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues)
            await admin.create_topic(self.broker.address, config)
        return topic

    async def send(
        self, topic: str, bodies: Sequence[str], queue_id: int = 0, properties: Mapping[str, str] | None = None
    ) -> None:
        """Send bodies to a queue, one batch."""
        async with direct() as client:
            messages = [Message(topic, one.encode(), properties=dict(properties or {})) for one in bodies]
            await put_batch(client, self.broker.address, queue_id, messages)


def queue_of(topic: str, queue_id: int = 0) -> MessageQueue:
    """Return a queue of the cluster's broker."""
    return MessageQueue(topic, BROKER, queue_id)


@contextmanager
def consumer_cluster(home: Path) -> Iterator[ConsumerCluster]:
    """Run the servers."""
    with (
        running("namesrv", home / "names") as names,
        running_broker(home / "broker", f"namesrvAddr={names.address}", "enablePropertyFilter=true") as broker,
    ):
        wait_for_a_broker(names.address)
        yield ConsumerCluster(names, broker)
