"""A consumer that calls a listener with the messages of its topics.

RocketMQ's source: client/consumer/DefaultMQPushConsumer.java, client/impl/consumer/DefaultMQPushConsumerImpl.java,
client/impl/ClientRemotingProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.conflicts import SubscriptionCheck
from rocketflow.client.consume.corrections import Corrections
from rocketflow.client.consume.gaps import SkipReports
from rocketflow.client.consume.membership import (
    BROADCASTING,
    CLUSTERING,
    PUSH,
    GroupMembership,
    now_ms,
)
from rocketflow.client.consume.offset_stores import (
    PERSIST_SECONDS,
    LocalOffsetStore,
    OffsetStore,
    RemoteOffsetStore,
    local_offset_paths,
)
from rocketflow.client.consume.pulls import Puller
from rocketflow.client.consume.rebalance import RebalanceLoop
from rocketflow.client.consume.start_positions import StartPositions
from rocketflow.client.consume.subscriptions import ALL, TAG, subscription
from rocketflow.client.consume.trace import ConsumeTrace
from rocketflow.client.errors import ClientStateError, NoRouteError
from rocketflow.client.push.broker_requests import BrokerRequests
from rocketflow.client.push.concurrent import ConcurrentCalls
from rocketflow.client.push.figures import ConsumeFigures
from rocketflow.client.push.holdings import Holdings
from rocketflow.client.push.orderly import OrderlyCalls
from rocketflow.client.push.pulling import Calls, Pulling
from rocketflow.client.push.queue_locks import QueueLocks
from rocketflow.client.push.send_backs import SendBacks
from rocketflow.client.push.traced_calls import traced_listener
from rocketflow.remoting.bodies import CheckClientRequestBody, encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from types import TracebackType

    from rocketflow.client.push.listeners import Listener
    from rocketflow.client.push.options import PushOptions
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

LOG: Final = logging.getLogger("rocketflow.client")

RELOCK_S: Final = 20.0


class PushConsumer:
    """Consumes messages of the topics that a group subscribes to, at least once each.

    `subscribe` before or after `start`; a `async with` block starts and closes it. The listener is a coroutine
    function of messages and a ConsumeContext; None and ConsumeStatus.SUCCESS acknowledge them, an exception or
    RECONSUME_LATER retries them. Calls raise ClientError.
    """

    def __init__(self, options: PushOptions, listener: Listener) -> None:
        self.options = options
        self._figures = ConsumeFigures()
        self._membership = GroupMembership(
            options.group,
            consume_type=PUSH,
            message_model=BROADCASTING if options.broadcasting else CLUSTERING,
            consume_from_where=options.consume_from.value,
        )
        self._requests = BrokerRequests(options, listener, self._membership, self._figures)
        self._cluster = Cluster(options, self._membership, self._requests.handlers())
        send_backs = SendBacks(self._cluster, options.group, options.trials)
        make = OrderlyCalls if options.orderly else ConcurrentCalls
        self._trace = ConsumeTrace(options, options.group, options.trace_topic) if options.trace_topic else None
        called = listener if self._trace is None else traced_listener(listener, self._trace, options.consume_timeout_s)
        self._calls: Calls = make(options, called, send_backs, self._figures)
        starts = StartPositions(self._cluster, options.consume_from, options.start_ms)
        locks = QueueLocks(self._cluster, options.group) if options.locks_queues else None
        store = self._offset_store()
        self._holdings = Holdings(options, self._cluster, self._membership, store, starts, locks)
        puller = Puller(self._cluster, options.group)
        self._skips = SkipReports(self._cluster, puller, options.group)
        self._corrections = Corrections(options.group, options.offset_corrected, restart=options.restart_recreated)
        read_by = (puller, self._calls, send_backs, self._figures, self._skips, self._corrections)
        self._pulling = Pulling(options, self._membership, *read_by)
        self._rebalances = RebalanceLoop(self._holdings.rebalance)
        self._check = SubscriptionCheck(self._cluster, self._membership)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def _is_started(self) -> bool:
        return bool(self._tasks)

    @property
    def client_id(self) -> str:
        """Return the id by which brokers know this client."""
        return self._cluster.client_id

    def queues(self) -> list[MessageQueue]:
        """Return the queues that this client reads now."""
        return sorted(self._holdings.queues())

    def conflicts(self) -> list[str]:
        """Return how the subscriptions of another client of the group differ, as found at a broker every heartbeat.

        The broker selects messages by the newest subscription, so that the others' are lost.
        """
        return self._check.conflicts

    @property
    def skipped(self) -> int:
        """Return the number of messages that brokers did not return, damaged or missing ones (logged as RF-SKIP)."""
        return self._skips.count

    @property
    def recreated(self) -> int:
        """Return how often a queue was found to be that of a topic that was created again (logged as RF-RECREATED)."""
        return self._corrections.recreated

    async def subscribe(self, topic: str, expression: str = ALL, *, expression_type: str = TAG) -> None:
        """Subscribe to a topic, or replace its subscription.

        `expression` is `tag || tag` or `*`, with expression type SQL92 a condition on properties. All clients of a
        group have to subscribe alike. Raises SubscriptionError, and after `start` RequestRefusedError for SQL that a
        broker refuses, and for a topic that the account may not read.
        """
        made = subscription(topic, expression, version=now_ms(), expression_type=expression_type)
        if self._is_started:
            await self._find([made])
        self._membership.subscribe(made)
        if self._is_started:
            await self._cluster.announce()
            self._rebalances.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        self._membership.unsubscribe(topic)
        if self._is_started:
            self._rebalances.wake()

    async def start(self) -> None:
        """Find the topics and begin to consume.

        Raises NoNameServerError, RequestRefusedError where a broker refuses a subscription by SQL, or the account may
        not be in the group or read a topic, and OffsetFileError if a broadcasting consumer's offsets cannot be read or
        another one of this host uses them.
        """
        if self._is_started:
            raise ClientStateError("the consumer is started already")
        if not self.options.broadcasting:
            self._membership.subscribe(subscription(RETRY_PREFIX + self.options.group, version=now_ms()))
        await self._holdings.load()
        try:
            await self._cluster.start()
            await self._find(list(self._membership.subscriptions().values()))
            await self._cluster.announce()
            if self._trace is not None:
                await self._trace.start()
        except BaseException:
            self._holdings.unload()
            await self._cluster.close()
            raise
        wake = self._rebalances.wake
        self._holdings.start(self._pulling, wake)
        self._requests.start(self._holdings, wake)
        self._cluster.on_route_change(lambda _: wake())
        self._calls.start()
        self._tasks = [
            self._cluster.spawn(self._rebalances.run()),
            self._cluster.spawn(_repeat(PERSIST_SECONDS, self._persist)),
            self._cluster.spawn(_repeat(RELOCK_S, self._holdings.relock)),
            self._check.start(),
        ]

    async def close(self) -> None:
        """Let calls of the listener end, at most `drain_s`; store the offsets, and leave the group."""
        if not self._is_started:
            return
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._holdings.stop_pulls()
        await self._calls.close(self.options.drain_s)
        await self._holdings.close()
        if self._trace is not None:
            await self._trace.close()
        await self._cluster.leave(consumer_group=self.options.group)
        await self._cluster.close()

    def suspend(self) -> None:
        """Read no queue until `resume`; messages that were read already are consumed."""
        self._pulling.suspend()

    def resume(self) -> None:
        """Read all queues again."""
        self._pulling.resume()

    async def __aenter__(self) -> PushConsumer:
        """Start the consumer."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the consumer."""
        await self.close()

    def _offset_store(self) -> OffsetStore:
        options = self.options
        if not options.broadcasting:
            return RemoteOffsetStore(self._cluster, options.group)
        return LocalOffsetStore(local_offset_paths(options, options.group, options.offset_dir))

    async def _persist(self) -> None:
        self._figures.sample(asyncio.get_running_loop().time())
        await self._holdings.persist()

    async def _find(self, subscriptions: list[SubscriptionData]) -> None:
        """Ask for the routes of topics, and let a broker of each check its subscription by SQL (46)."""
        for one in subscriptions:
            try:
                route = await self._cluster.route(one.topic)
            except NoRouteError as error:
                if not one.topic.startswith(RETRY_PREFIX):
                    LOG.warning("group %s: %s; it is read once it exists", self.options.group, error)
                continue
            if one.expression_type != TAG and route.broker_datas:
                broker = random.choice(route.broker_datas)
                address = self._cluster.broker_address(broker.broker_name, or_any=True)
                body = CheckClientRequestBody(client_id=self.client_id, group=self.options.group, subscription_data=one)
                await self._cluster.request(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))


async def _repeat(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(seconds)
        await work()
