"""The consumer group of a client: what its heartbeats announce, and which other clients the group has.

RocketMQ's source: client/impl/factory/MQClientInstance.java (prepareHeartbeatData, findConsumerIdList,
unregisterClient), client/impl/MQClientAPIImpl.java (getConsumerIdListByGroup).
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.client.consume.rebalance import sorted_client_ids
from rocketflow.client.errors import ClientError
from rocketflow.remoting.bodies import (
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    ProducerData,
    SubscriptionData,
    decode_body,
)
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.client import GetConsumerListByGroupRequestHeader, UnregisterClientRequestHeader

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster

LOG: Final = logging.getLogger("rocketflow.client")

PULL: Final = "CONSUME_ACTIVELY"
PUSH: Final = "CONSUME_PASSIVELY"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"


class GroupMembership:
    """One consumer group and its subscriptions; the membership that `Cluster` announces."""

    def __init__(self, group: str, *, consume_type: str, message_model: str, consume_from_where: str) -> None:
        self.group = group
        self._data = ConsumerData(
            group_name=group,
            consume_type=consume_type,
            message_model=message_model,
            consume_from_where=consume_from_where,
        )
        self._subscriptions: dict[str, SubscriptionData] = {}

    def producers(self) -> list[ProducerData]:
        """Return no producer group."""
        return []

    def consumers(self) -> list[ConsumerData]:
        """Return the group with its subscriptions."""
        return [msgspec.structs.replace(self._data, subscription_data_set=list(self._subscriptions.values()))]

    def subscriptions(self) -> dict[str, SubscriptionData]:
        """Return the subscriptions by topic."""
        return dict(self._subscriptions)

    def subscribe(self, subscription: SubscriptionData) -> None:
        """Add a subscription, or replace that of the same topic."""
        self._subscriptions[subscription.topic] = subscription

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic, if there is one."""
        self._subscriptions.pop(topic, None)

    def renew(self, topic: str) -> None:
        """Give a subscription a new version, as RocketMQ does when the queues of the client have changed."""
        found = self._subscriptions[topic]
        version = max(now_ms(), found.sub_version + 1)
        self._subscriptions[topic] = msgspec.structs.replace(found, sub_version=version)


async def client_ids(cluster: Cluster, topic: str, group: str) -> list[str]:
    """Return the sorted ids of a group's clients, as one broker of the topic knows them (38).

    Raises ClientError: RequestRefusedError where the broker knows no client of the group.
    """
    route = await cluster.route(topic)
    brokers = [one for one in route.broker_datas if one.broker_addrs]
    if not brokers:
        raise ClientError(f"topic {topic!r} has no broker with an address: is one running?")
    chosen = random.choice(brokers)
    address = cluster.broker_address(chosen.broker_name, or_any=True)
    header = GetConsumerListByGroupRequestHeader(consumer_group=group)
    reply = await cluster.request(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    try:
        return sorted_client_ids(decode_body(reply.body, GetConsumerListByGroupResponseBody).consumer_id_list)
    except RemotingError as error:
        raise ClientError(f"{address}: the clients of group {group!r} cannot be read: {error}") from None


async def unregister(cluster: Cluster, group: str) -> None:
    """Take leave of all brokers (35), so that the group's other clients get the queues at once; failures are logged."""
    header = UnregisterClientRequestHeader(client_id=cluster.client_id, consumer_group=group)

    async def leave(address: str) -> None:
        try:
            await cluster.request(address, RequestCode.UNREGISTER_CLIENT, header)
        except ClientError as error:
            LOG.info("group %s could not be unregistered: %s", group, error)

    addresses = [address for one in cluster.brokers().values() for address in one.broker_addrs.values()]
    await asyncio.gather(*(leave(one) for one in addresses))


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return int(time.time() * 1000)
