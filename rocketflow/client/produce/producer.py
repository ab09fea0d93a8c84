"""A producer on asyncio.

RocketMQ's source: client/producer/DefaultMQProducer.java, client/impl/producer/DefaultMQProducerImpl.java.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

from rocketflow.aio.channel import UNSENT_LIMIT
from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import ClientStateError, RequestRefusedError
from rocketflow.client.ids import unique_keys
from rocketflow.client.produce.auto_batches import AutoBatches
from rocketflow.client.produce.checks import check_group, check_message
from rocketflow.client.produce.errors import BadMessageError, NoReplyError
from rocketflow.client.produce.in_flight import InFlight
from rocketflow.client.produce.outgoing import Outgoing, batch, single
from rocketflow.client.produce.replies import Replies, as_request
from rocketflow.client.produce.sender import Sender
from rocketflow.client.produce.trace import FLUSH_SECONDS, Traced, Tracer, TraceRow, recalled_row, sent_row
from rocketflow.remoting.bodies import ConsumerData, MessageQueue, ProducerData
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.send import RecallMessageRequestHeader, RecallMessageResponseHeader
from rocketflow.remoting.recall_handle import decode_recall_handle
from rocketflow_store.spi.messages import Message

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.cluster import Handler
    from rocketflow.client.produce.options import ProducerOptions
    from rocketflow.client.produce.results import SendResult
    from rocketflow.client.produce.selectors import Selector
    from rocketflow_store.spi.messages import ReceivedMessage

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
    many messages wait for answers, and SendFailedError once all attempts have failed, SendRefusedError if brokers
    refused them. Its `may_be_stored` says whether the message may be stored all the same. A message that is sent again
    keeps its unique key, by which consumers can recognise it.

    `to` is a queue, or a selector that chooses one; such a send has one attempt. Otherwise the queues take turns, and
    a failed attempt is followed by one at another broker. `timeout_s` replaces `send_timeout_s` of the options.
    """

    def __init__(self, options: ProducerOptions, handlers: Mapping[int, Handler] | None = None) -> None:
        """Prepare a producer; `handlers` answer further requests of brokers, by code."""
        check_group(options.group)
        self.options = options
        self._replies = Replies()
        given = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._replies.handle, **(handlers or {})}
        limit = min(options.max_in_flight_bytes, UNSENT_LIMIT)
        self.cluster = Cluster(
            options, OneGroup(options.group), given, unsent_limit=limit, first_wait_s=options.send_timeout_s
        )
        self._sender = Sender(self.cluster, options)
        self._in_flight = InFlight(options.max_in_flight, options.max_in_flight_bytes)
        self._keys = unique_keys()
        self._batches = AutoBatches(options, self._send_together) if options.batch_linger_s > 0 else None
        self._tracer = Tracer(options.trace_topic, self._send_trace) if options.trace_topic else None
        self._announced: set[str] = set()
        self._is_open = False

    async def start(self) -> None:
        """Begin to refresh routes and to send heartbeats; connections are opened when sends need them."""
        await self.cluster.start()
        if self._tracer is not None:
            self.cluster.spawn(self._flush_traces(self._tracer))
        self._is_open = True

    async def close(self) -> None:
        """Refuse further sends, wait for the answers to those that were sent, leave the group and disconnect."""
        self._is_open = False
        if self._batches is not None:
            self._batches.flush()
        await self._in_flight.drain(self.options.send_timeout_s)
        if self._tracer is not None:
            await self._tracer.flush()
        await self.cluster.leave(producer_group=self.options.group)
        await self.cluster.close()

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
        if self._batches is not None and to is None and not timeout_s and self._batches.takes(message):
            return await self._send_in_batch(message, self._batches)
        out = await self._single(message)
        await self._take(out, timeout_s)
        return await self._send(out, to, timeout_s)

    async def send_async(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> asyncio.Task[SendResult]:
        """Begin to send a message and return the task whose result `send` would return.

        It waits for room where too many messages wait for answers. Its messages are not collected into batches.
        """
        out = await self._single(message)
        await self._take(out, timeout_s)
        return asyncio.get_running_loop().create_task(self._send(out, to, timeout_s))

    async def send_one_way(self, message: Message, *, to: MessageQueue | Selector | None = None) -> None:
        """Write a message to a broker's connection: no answer says whether it was stored.

        It waits while more than `max_in_flight_bytes`, or 16 MiB, wait for a broker that reads slowly, and raises
        NoRoomError after `send_timeout_s`.
        """
        await self._sender.send_one_way(await self._single(message), to)

    async def send_batch(
        self, messages: Sequence[Message], *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> SendResult:
        """Send messages of one topic in one request: all are stored, one after the other in one queue, or none."""
        self._check_open()
        out = batch(messages, self._keys, self.options)
        await self._take(out, timeout_s)
        return await self._send(out, to, timeout_s)

    async def request(
        self, message: Message, *, to: MessageQueue | Selector | None = None, timeout_s: float = 0.0
    ) -> ReceivedMessage:
        """Send a message and return the reply of its consumer, who makes it by `reply_to`.

        Raises NoReplyError where none has come within `timeout_s`, which is that of the send too, and as `send` does.
        """
        timeout_s = timeout_s or self.options.send_timeout_s
        ends_at = asyncio.get_running_loop().time() + timeout_s
        await self._announce(message.topic)
        asked, correlation_id = as_request(message, self.cluster.client_id, timeout_s)
        reply = self._replies.expect(correlation_id)
        try:
            await self.send(asked, to=to, timeout_s=timeout_s)
            async with asyncio.timeout_at(ends_at):
                return await reply
        except TimeoutError:
            raise NoReplyError(
                f"topic {message.topic!r}: no consumer has replied to message {asked.uniq_key} within {timeout_s:g} s"
            ) from None
        finally:
            self._replies.forget(correlation_id)

    async def recall(self, topic: str, handle: str) -> str:
        """Cancel a timer message by the `recall_handle` of its result, before it is due; return its unique key.

        Raises BadMessageError for a text that is no handle, and RequestRefusedError.
        """
        self._check_open()
        try:
            recalled = decode_recall_handle(handle)
        except RemotingError as error:
            raise BadMessageError(f"topic {topic!r}: {error}") from None
        await self._sender.queues(topic)
        header = RecallMessageRequestHeader(
            producer_group=self.options.group, topic=topic, recall_handle=handle, bname=recalled.broker_name
        )
        address = self.cluster.broker_address(recalled.broker_name)
        reply = await self.cluster.ask(address, RequestCode.RECALL_MESSAGE, header)
        is_recalled, region = reply.code == ResponseCode.SUCCESS, reply.fields.get("MSG_REGION")
        if region is not None:
            traced = Traced(topic, recalled.uniq_key, "", "")
            now_ms = int(time.time() * 1000)
            self.trace(recalled_row(traced, self.options.group, now_ms, region, is_recalled=is_recalled))
        if not is_recalled:
            raise RequestRefusedError(address, RequestCode.RECALL_MESSAGE, reply.code, reply.remark)
        return reply.header(RecallMessageResponseHeader).msg_id

    async def _announce(self, topic: str) -> None:
        """Send heartbeats before the first request about a topic: its reply may come through any of its brokers."""
        self._check_open()
        await self._sender.queues(topic)
        if topic not in self._announced:
            await self.cluster.send_heartbeats()
            self._announced.add(topic)

    async def _single(self, message: Message) -> Outgoing:
        self._check_open()
        check_message(message, self.options.max_message_size)
        if len(message.body) >= max(_COMPRESS_IN_THREAD, self.options.compress_above):
            return await asyncio.to_thread(single, message, self._keys, self.options)
        return single(message, self._keys, self.options)

    async def _take(self, out: Outgoing, timeout_s: float) -> None:
        count, size = len(out.messages), len(out.body)
        if not self._in_flight.take(count, size):
            await self._in_flight.wait(count, size, timeout_s or self.options.send_timeout_s)

    async def _send(self, out: Outgoing, to: MessageQueue | Selector | None, timeout_s: float) -> SendResult:
        """Send what is counted as in flight already."""
        try:
            if self._tracer is None:
                return await self._sender.send(out, to, timeout_s or self.options.send_timeout_s)
            return await self._send_traced(self._tracer, out, to, timeout_s)
        finally:
            self._in_flight.release(len(out.messages), len(out.body))

    async def _send_in_batch(self, message: Message, batches: AutoBatches) -> SendResult:
        self._check_open()
        check_message(message, self.options.max_message_size)
        size = len(message.body)
        if not self._in_flight.take(1, size):
            await self._in_flight.wait(1, size, self.options.send_timeout_s)
        try:
            return await batches.send(message)
        finally:
            self._in_flight.release(1, size)

    async def _send_together(self, messages: Sequence[Message]) -> SendResult:
        """Send the messages of an automatic batch, which are counted as in flight already."""
        one = len(messages) == 1
        out = single(messages[0], self._keys, self.options) if one else batch(messages, self._keys, self.options)
        if self._tracer is None:
            return await self._sender.send(out, None, self.options.send_timeout_s)
        return await self._send_traced(self._tracer, out, None, 0.0)

    async def _send_traced(
        self, tracer: Tracer, out: Outgoing, to: MessageQueue | Selector | None, timeout_s: float
    ) -> SendResult:
        began = time.time()
        result = await self._sender.send(out, to, timeout_s or self.options.send_timeout_s)
        if result.is_traced and out.topic != tracer.topic:
            times_ms = int(began * 1000), int((time.time() - began) * 1000)
            host = self._sender.address_of(result.queue)
            traced, kind = out.traced()
            row = sent_row(traced, result, self.options.group, times_ms, host, len(out.body), kind)
            self.trace(row)
        return result

    def trace(self, row: TraceRow) -> None:
        """Add a row to the trace, if there is one."""
        if self._tracer is not None and self._tracer.add(row):
            self.cluster.spawn(self._tracer.flush())

    async def _send_trace(self, message: Message) -> None:
        await self._sender.send(single(message, self._keys, self.options), None, self.options.send_timeout_s)

    async def _flush_traces(self, tracer: Tracer) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            await tracer.flush()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientStateError("the producer is not started, or closed: call start(), or use it in a with block")
