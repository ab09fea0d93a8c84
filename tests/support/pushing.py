"""A small cluster for tests of push consumers: messages for single queues, and consumers that note what they get."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.client.push import ConsumeContext, ConsumeFrom, ConsumeStatus, PushConsumer, PushOptions
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.send import SendMessageRequestHeaderV2
from rocketflow_store.spi.messages import ReceivedMessage
from rocketflow_store.spi.table_rows import TopicConfig
from tests.support.servers import RunningServer, running, running_broker, wait_for_a_broker

PATIENCE_S: Final = 60.0
BROKER_SETTINGS: Final = ("enablePropertyFilter=true", "messageDelayLevel=1s 1s 1s 1s 1s 1s")


@contextmanager
def small_cluster(home: Path, *settings: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Run a NameServer and a broker whose delay levels are all one second."""
    with (
        running("namesrv", home / "names") as names,
        running_broker(home / "broker", f"namesrvAddr={names.address}", *BROKER_SETTINGS, *settings) as broker,
    ):
        wait_for_a_broker(names.address)
        yield names, broker


@asynccontextmanager
async def operator(names: str) -> AsyncIterator[AdminClient]:
    """Yield a client for operators."""
    async with AdminClient(ClientOptions(name_servers=names, timeout_s=30)) as client:
        yield client


async def make_topic(names: str, topic: str, queues: int = 4, **more: Any) -> None:
    """Create a topic at all brokers and wait until the NameServer knows it."""
    async with operator(names) as client:
        for cluster in (await client.cluster_info()).cluster_addr_table:
            for address in await client.brokers_of(cluster):
                config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, **more)
                await client.create_topic(address, config)
        await until(lambda: _has_route(client, topic))


async def _has_route(client: AdminClient, topic: str) -> bool:
    route = await client.cluster.ask_route(topic)
    return bool(route.queue_datas)


async def put(
    names: str, topic: str, bodies: Iterable[str], queues: int = 4, properties: dict[str, str] | None = None
) -> None:
    """Send a message for each body, to one queue after the other of a broker."""
    text = "".join(f"{name}\x01{value}\x02" for name, value in (properties or {}).items())
    async with operator(names) as client:
        await client.cluster.route(topic)
        (address,) = await client.masters(topic)

        async def send(number: int, body: str) -> None:
            header = SendMessageRequestHeaderV2(
                producer_group="tests",
                topic=topic,
                default_topic="TBW102",
                default_topic_queue_nums=queues,
                queue_id=number % queues,
                sys_flag=0,
                born_timestamp=int(time.time() * 1000),
                flag=0,
                properties=f"{text}UNIQ_KEY\x01{topic}-{body}\x02",
            )
            request = RequestCode.SEND_MESSAGE_V2, header
            while (answer := await client.cluster.ask(address, *request, body=body.encode())).code:
                assert answer.code == ResponseCode.SYSTEM_BUSY, answer.remark  # it was not stored

        for number, body in enumerate(bodies):
            await send(number, body)


class Noted:
    """A listener that notes its messages; `act`, if given, says how a call ends."""

    def __init__(
        self, act: Callable[[ReceivedMessage, ConsumeContext], Awaitable[ConsumeStatus | None]] | None = None
    ) -> None:
        self.messages: list[ReceivedMessage] = []
        self.calls: list[int] = []
        self._act = act

    async def __call__(self, messages: list[ReceivedMessage], context: ConsumeContext) -> ConsumeStatus | None:
        self.messages += messages
        self.calls.append(len(messages))
        return None if self._act is None else await self._act(messages[0], context)

    @property
    def bodies(self) -> list[str]:
        """Return the bodies in the order in which they came."""
        return [one.body.decode() for one in self.messages]

    def counts(self) -> Counter[str]:
        """Return how often each body came."""
        return Counter(self.bodies)


def options(names: str, group: str, **more: Any) -> PushOptions:
    """Return options of a consumer that starts at the first message."""
    return PushOptions(**{"name_servers": names, "group": group, "consume_from": ConsumeFrom.FIRST, **more})


@asynccontextmanager
async def consuming(made: PushOptions, listener: Any, *topics: str) -> AsyncIterator[PushConsumer]:
    """Run a consumer of topics within the block."""
    consumer = PushConsumer(made, listener)
    for topic in topics:
        await consumer.subscribe(topic)
    async with consumer:
        yield consumer


async def until(holds: Callable[[], bool] | Callable[[], Awaitable[bool]], seconds: float = PATIENCE_S) -> None:
    """Wait until a condition holds. AssertionError if it does not in time."""
    latest = time.monotonic() + seconds
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return
        assert time.monotonic() < latest, f"it does not hold after {seconds:g} s"
        await asyncio.sleep(0.02)


async def committed(names: str, group: str, topic: str) -> dict[MessageQueue, int]:
    """Return the offsets that the brokers have of a group."""
    async with operator(names) as client:
        found = await client.consume_stats(group, topic)
    return {queue: one.consumer_offset for queue, one in found.queues.items()}
