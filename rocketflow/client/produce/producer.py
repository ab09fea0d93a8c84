"""A producer on asyncio.

RocketMQ's source: client/producer/DefaultMQProducer.java, client/impl/producer/DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import ClientStateError
from rocketflow.client.ids import UniqueKeys
from rocketflow.client.messages import Message
from rocketflow.client.produce.checks import check_batch, check_group, check_message
from rocketflow.client.produce.in_flight import InFlight
from rocketflow.client.produce.outgoing import Outgoing, batch, single
from rocketflow.client.produce.sender import Sender
from rocketflow.remoting.bodies import ConsumerData, MessageQueue, ProducerData

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.client.produce.results import SendResult
    from rocketflow.client.produce.selectors import Selector

_COMPRESS_IN_THREAD: Final = 256 * 1024
"""Bodies of this many bytes are compressed in a thread: the event loop goes on meanwhile."""


class OneGroup:
    """The membership of a client with one producer group."""

    def __init__(self, group: str) -> None:
        self._group = group

    def producers(self) -> list[ProducerData]:
        """Return the group."""
        return [ProducerData(group_name=self._group)]

    def consumers(self) -> list[ConsumerData]:
        """Return no group."""
        return []


class Producer:
    """Sends messages to the brokers of a cluster; `async with Producer(options) as producer` starts and closes it.

    Sends raise ClientError: BadMessageError for a message that brokers would refuse, NoRouteError for a topic without
    queues, NoNameServerError where no NameServer answers for a topic that is new to the producer, NoRoomError where too
    many messages wait for answers, and SendFailedError once all attempts have failed; it says whether the message may
    be stored all the same. A message that is sent again keeps its unique key, by which consumers can recognise it.

    `to` is a queue, or a selector that chooses one; such a send has one attempt. Otherwise the queues take turns, and
    a failed attempt is followed by one at another broker. `timeout_s` replaces `send_timeout_s` of the options.
    """

    def __init__(self, options: ProducerOptions) -> None:
        check_group(options.group)
        self._options = options
        self._cluster = Cluster(options, OneGroup(options.group))
        self._sender = Sender(self._cluster, options)
        self._in_flight = InFlight(options.max_in_flight, options.max_in_flight_bytes)
        self._keys = UniqueKeys()
        self._is_open = False

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know the client."""
        return self._cluster.client_id

    async def start(self) -> None:
        """Begin to refresh routes and to send heartbeats; connections are opened when sends need them."""
        await self._cluster.start()
        self._is_open = True

    async def close(self) -> None:
        """Refuse further sends, wait for the answers to those that were sent, and end all connections."""
        self._is_open = False
        await self._in_flight.drain(self._options.send_timeout_s)
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        """Start the producer."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the producer."""
        await self.close()

    async def queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues that messages of a topic may be sent to."""
        self._check_open()
        return (await self._sender.queues(topic)).queues

    async def send(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> SendResult:
        """Send a message and return where it was stored."""
        out = await self._single(message)
        await self._take(out, timeout_s)
        return await self._send(out, to, timeout_s)

    async def send_async(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> asyncio.Task[SendResult]:
        """Begin to send a message and return the task whose result `send` would return.

        It waits for room where too many messages wait for answers.
        """
        out = await self._single(message)
        await self._take(out, timeout_s)
        return asyncio.get_running_loop().create_task(self._send(out, to, timeout_s))

    async def send_one_way(self, message: Message, *, to: MessageQueue | Selector | None = None) -> None:
        """Write a message to a broker's connection: no answer says whether it was stored."""
        await self._sender.send_one_way(await self._single(message), to)

    async def send_batch(
        self, messages: Sequence[Message], *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> SendResult:
        """Send messages of one topic in one request: all are stored, one after the other in one queue, or none."""
        self._check_open()
        check_batch(messages, self._options.max_message_size)
        out = batch(messages, self._keys, self._options)
        await self._take(out, timeout_s)
        return await self._send(out, to, timeout_s)

    async def _single(self, message: Message) -> Outgoing:
        self._check_open()
        check_message(message, self._options.max_message_size)
        if len(message.body) >= max(_COMPRESS_IN_THREAD, self._options.compress_above):
            return await asyncio.to_thread(single, message, self._keys, self._options)
        return single(message, self._keys, self._options)

    async def _take(self, out: Outgoing, timeout_s: float) -> None:
        count, size = len(out.messages), len(out.body)
        if not self._in_flight.take(count, size):
            await self._in_flight.wait(count, size, timeout_s or self._options.send_timeout_s)

    async def _send(self, out: Outgoing, to: MessageQueue | Selector | None, timeout_s: float) -> SendResult:
        """Send what is counted as in flight already."""
        try:
            return await self._sender.send(out, to, timeout_s or self._options.send_timeout_s)
        finally:
            self._in_flight.release(len(out.messages), len(out.body))

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientStateError("the producer is not started, or closed: call start(), or use it in a with block")
