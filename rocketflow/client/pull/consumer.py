"""The lite pull consumer.

RocketMQ's source: client/consumer/DefaultLitePullConsumer.java, client/impl/consumer/DefaultLitePullConsumerImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Self, TypeVar

from rocketflow.client.admin.message_requests import MessageRequests
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.conflicts import SubscriptionCheck
from rocketflow.client.consume.corrections import Corrections
from rocketflow.client.consume.gaps import SkipReports
from rocketflow.client.consume.membership import CLUSTERING, PULL, GroupMembership
from rocketflow.client.consume.offset_stores import RemoteOffsetStore
from rocketflow.client.consume.pulls import Puller
from rocketflow.client.consume.rebalance import sorted_queues
from rocketflow.client.consume.subscriptions import ALL, TAG
from rocketflow.client.consume.trace import ConsumeTrace, ReturnType
from rocketflow.client.errors import ClientError, ClientStateError
from rocketflow.client.pull.assignment import Assignment
from rocketflow.client.pull.broker_requests import BrokerRequests
from rocketflow.client.pull.fetching import Fetcher
from rocketflow.client.pull.queue_buffer import Answer, QueueBuffer

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.consume.corrections import OffsetCorrection
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.remoting.bodies import MessageQueue
    from rocketflow_store.spi.messages import ReceivedMessage

LOG: Final = logging.getLogger("rocketflow.client")

POLL_SECONDS: Final = 5.0
POLL_MESSAGES: Final = 500
POLL_BYTES: Final = 16 * 1024 * 1024

A = TypeVar("A")


class QueueNotAssignedError(ClientError):
    """A call names a queue that this client does not read now."""


class PullConsumer:
    """Reads queues when the caller polls; pulls ahead in between.

    `assign` reads given queues, `subscribe` those that a rebalance gives to this client of the group. Used as
    `async with PullConsumer(options) as consumer`; an exception in the block ends the client without committing the
    messages of the last poll. Calls raise ClientError: NoRouteError for an unknown topic, RequestRefusedError where a
    broker refuses a request, ClientStateError for a call in the wrong state.
    """

    def __init__(self, options: PullOptions) -> None:
        self._options = options
        membership = GroupMembership(
            options.group, consume_type=PULL, message_model=CLUSTERING, consume_from_where=options.start.value
        )
        self._requests = BrokerRequests(options, membership)
        self._cluster = Cluster(options, membership, self._requests.handlers())
        self._offsets = RemoteOffsetStore(self._cluster, options.group)
        self._queues = MessageRequests(self._cluster)
        puller = Puller(self._cluster, options.group)
        self._skips = SkipReports(self._cluster, puller, options.group, options.listener.messages_skipped)
        self._corrections = Corrections(options.group, self._corrected, restart=options.restart_recreated)
        self._fetcher = Fetcher(puller, options, self._corrections, self._skips)
        self._assignment = Assignment(options, self._cluster, membership, self._offsets, self._fetcher)
        self._check = SubscriptionCheck(self._cluster, membership)
        self._trace = ConsumeTrace(options, options.group, options.trace_topic) if options.trace_topic else None
        self._deferred: Exception | None = None
        self._is_open = False

    # --- life

    async def start(self) -> None:
        """Start heartbeats, the refresh of routes, rebalances and commits."""
        await self._cluster.start()
        if self._trace is not None:
            await self._trace.start()
        self._is_open = True
        self._assignment.start()
        self._requests.start(self._fetcher, self._offsets, self._assignment.wake)
        if self._options.auto_commit:
            self._cluster.spawn(self._commit_regularly())

    async def close(self) -> None:
        """End the client; with `auto_commit`, messages that were polled are committed. A second call does nothing."""
        if self._is_open and self._options.auto_commit:
            self._acknowledge()
        await self.abort()

    async def abort(self) -> None:
        """End the client like `close`, but do not commit the messages of the last poll."""
        if not self._is_open:
            return
        self._is_open = False
        await self._fetcher.report_skipped()
        held = self.assignment()
        self._assignment.close()
        try:
            await self._offsets.persist(held)
        except ClientError as error:
            LOG.warning("the last offsets of group %s could not be committed: %s", self._options.group, error)
        if self._trace is not None:
            await self._trace.close()
        await self._cluster.leave(consumer_group=self._options.group)
        await self._cluster.close()

    async def __aenter__(self) -> Self:
        """Start the client."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the client."""
        await (self.close() if kind is None else self.abort())

    # --- the queues to read

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, sorted."""
        return await self._assignment.queues_of(topic)

    async def assign(self, queues: Iterable[MessageQueue], expression: str = ALL, expression_type: str = TAG) -> None:
        """Read exactly these queues, without a rebalance; another call replaces them.

        Queues that stay keep their positions; the others begin at the committed offset or the start position.
        """
        self._check_open()
        await self._assignment.assign(queues, expression, expression_type)

    async def subscribe(self, topic: str, expression: str = ALL, expression_type: str = TAG) -> None:
        """Read this client's share of a topic's queues; the group's other clients read the rest.

        `expression` is `tag || tag`, or with SQL92 a condition on properties. Another call for the same topic replaces
        it from the next message on.
        """
        self._check_open()
        await self._assignment.subscribe(topic, expression, expression_type)
        self._check.start()

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no longer."""
        self._check_open()
        await self._assignment.unsubscribe(topic)

    def assignment(self) -> list[MessageQueue]:
        """Return the queues that the client reads now, sorted."""
        return sorted_queues(self._fetcher.buffers)

    def conflicts(self) -> list[str]:
        """Return how the subscriptions of another client of the group differ, as found at a broker every heartbeat.

        Messages that only this client selects are lost in the queues of the others. After `assign` there are none: the
        callers share out the queues.
        """
        return self._check.conflicts

    # --- messages

    async def poll(self, timeout_s: float = POLL_SECONDS, max_messages: int = POLL_MESSAGES) -> list[ReceivedMessage]:
        """Return messages, at least one unless `timeout_s` passes; those of one queue are in order.

        With `auto_commit`, messages of earlier calls count as consumed from now on. Raises DamagedRecordError, and
        RequestRefusedError where a broker refuses the client's pulls.
        """
        found: list[ReceivedMessage] = []

        def take(buffer: QueueBuffer) -> bool:
            found.extend(buffer.take(max_messages - len(found)))
            return len(found) < max_messages

        await self._take(timeout_s, take, lambda: bool(found))
        await self._fetcher.report_skipped()
        if self._trace is not None and found:
            self._trace.after(self._trace.before(found), ReturnType.SUCCESS)
        return found

    async def poll_answers(
        self,
        decode: Callable[[Answer], A],
        timeout_s: float = POLL_SECONDS,
        max_bytes: int = POLL_BYTES,
        linger_s: float = 0.0,
    ) -> list[A]:
        """Return what `decode` makes of the answers of brokers, one for each queue that has some, about `max_bytes`.

        It is for decoders of records that need no object for each message, such as `rocketflow.arrow`. Waits and
        commits as `poll` does, and for `linger_s` more after the first answer: many messages together are decoded
        faster. Raises what `decode` raises; the position then stays before the answer.
        """
        if linger_s and (self.waiting_bytes or await self._fetcher.wait(timeout_s)):
            loop = asyncio.get_running_loop()
            latest = loop.time() + linger_s
            while self.waiting_bytes < max_bytes and await self._fetcher.wait(max(latest - loop.time(), 0)):
                pass
        found: list[A] = []
        remaining = max_bytes

        def take(buffer: QueueBuffer) -> bool:
            nonlocal remaining
            before = buffer.size
            found.append(buffer.take_answer(decode, remaining))
            remaining -= before - buffer.size
            return remaining > 0

        await self._take(timeout_s, take, lambda: bool(found))
        await self._fetcher.report_skipped()
        return found

    async def _take(self, timeout_s: float, take: Callable[[QueueBuffer], bool], is_enough: Callable[[], bool]) -> None:
        """Call `take` with buffers that have answers, until it returns False, or has enough and there are no more.

        What it raises after it has taken messages is raised by the next call.
        """
        self._check_open()
        if self._options.auto_commit:
            self._acknowledge()
        if self._deferred is not None:
            deferred, self._deferred = self._deferred, None
            raise deferred
        loop = asyncio.get_running_loop()
        latest = loop.time() + timeout_s
        while True:
            for buffer in self._fetcher.ready():
                try:
                    goes_on = take(buffer)
                except Exception as error:
                    if not is_enough():
                        raise
                    self._deferred = error
                    return
                finally:
                    self._fetcher.taken(buffer)
                if not goes_on:
                    break
            if is_enough() or not await self._fetcher.wait(max(latest - loop.time(), 0)):
                return
            self._check_open()

    @property
    def recreated(self) -> int:
        """Return how often a queue was found to be that of a topic that was created again (logged as RF-RECREATED)."""
        return self._corrections.recreated

    @property
    def skipped(self) -> int:
        """Return the number of messages that brokers did not return; the listener's `messages_skipped` names them."""
        return self._skips.count

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of records that were pulled and not polled."""
        return sum(one.size for one in self._fetcher.buffers.values())

    def pause(self, *queues: MessageQueue) -> None:
        """Return no messages of these queues until `resume`."""
        for one in queues:
            self._fetcher.pause(self._buffer(one).queue)

    def resume(self, *queues: MessageQueue) -> None:
        """Return messages of these queues again."""
        for one in queues:
            self._fetcher.resume(self._buffer(one).queue)

    # --- positions

    def position(self, queue: MessageQueue) -> int:
        """Return the offset of the next message that `poll` may return."""
        return self._buffer(queue).position

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset. A later commit stores it, even if it is smaller than the committed one."""
        if offset < 0:
            raise ClientError(f"{queue} has no offset {offset}; offsets begin at 0")
        self._buffer(queue)
        self._fetcher.seek(queue, offset)
        if self._offsets.offset(queue) is not None:
            self._offsets.update(queue, offset, only_increase=False)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message that is stored."""
        self.seek(queue, await self._queues.min_offset(self._buffer(queue).queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on at the next message that will be stored."""
        self.seek(queue, await self._queues.max_offset(self._buffer(queue).queue))

    async def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Go on at the first message that was stored at a time (ms since 1970) or after it."""
        self.seek(queue, await self._queues.search_offset(self._buffer(queue).queue, timestamp_ms))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's offset of a queue at its broker, None if there is none."""
        return await self._offsets.stored_offset(queue)

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Commit given offsets, or all messages that were polled; wait until the brokers have stored them."""
        self._check_open()
        if offsets is None:
            self._acknowledge()
        else:
            for queue, offset in offsets.items():
                self._offsets.update(self._buffer(queue).queue, offset, only_increase=False)
        await self._offsets.persist(self._fetcher.buffers if offsets is None else offsets)

    # --- the inside

    def _acknowledge(self) -> None:
        """Take note that what was polled is consumed."""
        for queue, buffer in self._fetcher.buffers.items():
            self._offsets.update(queue, buffer.position, only_increase=False)

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._options.commit_interval_s)
            try:
                await self._offsets.persist(self._fetcher.buffers)
            except ClientError as error:
                LOG.warning("offsets of group %s could not be committed: %s", self._options.group, error)

    def _corrected(self, correction: OffsetCorrection) -> None:
        """Pass on a position that a queue does not have; commits must not undo a reset to a smaller one."""
        queue, asked, corrected = correction[:3]
        if corrected < asked and self._offsets.offset(queue) is not None:
            self._offsets.update(queue, corrected, only_increase=False)
        self._options.listener.offset_corrected(correction)

    def _buffer(self, queue: MessageQueue) -> QueueBuffer:
        found = self._fetcher.buffers.get(queue)
        if found is None:
            raise QueueNotAssignedError(f"{queue} is not read by this client now; see assignment()")
        return found

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientStateError("the consumer is not started, or closed already")
