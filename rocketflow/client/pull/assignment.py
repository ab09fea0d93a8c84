"""The queues that a pull consumer reads: those that its caller names, or its share of subscribed topics.

RocketMQ's source: client/impl/consumer/DefaultLitePullConsumerImpl.java, RebalanceLitePullImpl.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from rocketflow.client.consume.membership import check_subscription, client_ids, now_ms
from rocketflow.client.consume.rebalance import RebalanceLoop, assigned_queues, changes, sorted_queues
from rocketflow.client.consume.start_positions import StartPositions
from rocketflow.client.consume.subscriptions import subscription
from rocketflow.client.errors import ClientError, ClientStateError, RequestRefusedError
from rocketflow.client.pull.queue_buffer import QueueBuffer
from rocketflow.client.routes import subscribe_queues

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.consume.membership import GroupMembership
    from rocketflow.client.consume.offset_stores import OffsetStore
    from rocketflow.client.pull.fetching import Fetcher
    from rocketflow.client.pull.options import PullOptions
    from rocketflow.remoting.bodies import MessageQueue, SubscriptionData

LOG: Final = logging.getLogger("rocketflow.client")


class Assignment:
    """Adds queues to a fetcher and removes them; one change at a time."""

    def __init__(
        self,
        options: PullOptions,
        cluster: Cluster,
        membership: GroupMembership,
        offsets: OffsetStore,
        fetcher: Fetcher,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._membership = membership
        self._offsets = offsets
        self._fetcher = fetcher
        self._starts = StartPositions(cluster, options.start, options.start_ms)
        self._rebalance = RebalanceLoop(self._rebalance_all)
        self._changing = asyncio.Lock()
        self._is_by_caller = False
        self._is_open = False

    def start(self) -> None:
        """Begin to rebalance: every 20 s, and after each `wake`."""
        self._is_open = True
        self._cluster.on_route_change(lambda topic: self.wake())
        self._cluster.spawn(self._rebalance.run())

    def wake(self) -> None:
        """Run a rebalance soon."""
        self._rebalance.wake()

    def close(self) -> None:
        """Read no queue any more."""
        self._is_open = False
        self._fetcher.close()

    async def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the readable queues of a topic, sorted. Raises NoRouteError."""
        return sorted_queues(subscribe_queues(topic, await self._cluster.route(topic)))

    async def assign(self, queues: Iterable[MessageQueue], expression: str, expression_type: str) -> None:
        """Read exactly these queues. Raises ClientError; the queues before stay where a broker is asked in vain."""
        if self._membership.subscriptions() and not self._is_by_caller:
            raise ClientStateError("assign was called after subscribe: use one of the two")
        wanted = set(queues)
        subscriptions = [
            subscription(topic, expression, version=now_ms(), expression_type=expression_type)
            for topic in sorted({one.topic for one in wanted})
        ]
        async with self._changing:
            for one in subscriptions:
                await self._check(one)
            self._is_by_caller = True
            for topic in self._membership.subscriptions():
                self._membership.unsubscribe(topic)
            for one in subscriptions:
                self._membership.subscribe(one)
            await self._cluster.announce()
            added, removed = changes(self._fetcher.buffers, wanted)
            await self._remove(removed)
            for queue, buffer in self._fetcher.buffers.items():
                if not _select_the_same(buffer.subscription, self._membership.subscriptions()[queue.topic]):
                    self._fetcher.select(queue, self._membership.subscriptions()[queue.topic])
            for queue in added:
                await self._add(queue)

    async def subscribe(self, topic: str, expression: str, expression_type: str) -> None:
        """Read this client's share of a topic. Raises ClientError."""
        if self._is_by_caller:
            raise ClientStateError("subscribe was called after assign: use one of the two")
        wanted = subscription(topic, expression, version=now_ms(), expression_type=expression_type)
        async with self._changing:
            await self._check(wanted)
            wanted = self._membership.subscribe(wanted)
            try:
                await self._cluster.announce()
            except RequestRefusedError:
                self._membership.unsubscribe(topic)  # the other topics would be refused with it
                raise
            for queue in self._of_topic(topic):
                self._fetcher.select(queue, wanted)
            if not await self._rebalance_topic(topic):
                self.wake()

    async def unsubscribe(self, topic: str) -> None:
        """Read a topic no longer."""
        async with self._changing:
            self._membership.unsubscribe(topic)
            await self._remove(self._of_topic(topic))
        await self._cluster.send_heartbeats()

    async def _check(self, one: SubscriptionData) -> None:
        await self._cluster.route(one.topic)
        await check_subscription(self._cluster, self._options.group, one)

    async def _add(self, queue: MessageQueue) -> None:
        stored = await self._offsets.stored_offset(queue)
        position = await self._starts.start_of(queue) if stored is None else stored
        if self._is_open:
            self._fetcher.add(QueueBuffer(queue, self._membership.subscriptions()[queue.topic], position))

    async def _remove(self, queues: Collection[MessageQueue]) -> None:
        for one in queues:
            self._fetcher.remove(one)
        try:
            await self._offsets.persist(queues)
        except ClientError as error:
            LOG.warning("offsets of group %s could not be committed: %s", self._options.group, error)
        for one in queues:
            self._offsets.remove(one)

    def _of_topic(self, topic: str) -> list[MessageQueue]:
        return [one for one in self._fetcher.buffers if one.topic == topic]

    async def _rebalance_all(self) -> bool:
        async with self._changing:
            if self._is_by_caller:
                return True
            return all([await self._rebalance_topic(topic) for topic in self._membership.subscriptions()])

    async def _rebalance_topic(self, topic: str) -> bool:
        """Compute the queues of this client again; return whether that is complete."""
        own, before = self._cluster.client_id, self._of_topic(topic)
        is_complete = False
        try:
            queues = await self.queues_of(topic)
            clients = await client_ids(self._cluster, topic, self._options.group)
            added, removed = changes(before, assigned_queues(self._options.strategy, own, queues, clients))
            await self._remove(removed)
            for one in added:
                await self._add(one)
            is_complete = own in clients
        except ClientError as error:
            LOG.info("topic %s of group %s is rebalanced later: %s", topic, self._options.group, error)
        added, removed = changes(before, self._of_topic(topic))
        if added or removed:
            self._membership.renew(topic)
            self._options.listener.queues_changed(added, removed)
        if added or removed or not is_complete:
            await self._cluster.send_heartbeats()
        return is_complete


def _select_the_same(one: SubscriptionData, other: SubscriptionData) -> bool:
    return (one.sub_string, one.expression_type) == (other.sub_string, other.expression_type)
