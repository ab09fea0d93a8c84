"""The consumer group of a client: what its heartbeats announce, and which other clients the group has.

RocketMQ's source: client/impl/factory/MQClientInstance.java (prepareHeartbeatData, findConsumerIdList),
client/impl/MQClientAPIImpl.java (getConsumerIdListByGroup).
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.client.consume.rebalance import sorted_client_ids
from rocketflow.client.consume.subscriptions import TAG
from rocketflow.client.errors import ClientError, NoBrokerAddressError
from rocketflow.remoting.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    ProducerData,
    SubscriptionData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.client import GetConsumerListByGroupRequestHeader

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster

PULL: Final = "CONSUME_ACTIVELY"
PUSH: Final = "CONSUME_PASSIVELY"
CLUSTERING: Final = "CLUSTERING"
BROADCASTING: Final = "BROADCASTING"


class GroupMembership:
    """One consumer group and its subscriptions; the membership that `Cluster` announces.

    Brokers keep the subscription with the greatest version, which is a time of the client that made it. A subscription
    gets a version above all that were seen of its topic, so that it counts where the clock of another client is ahead.
    """

    def __init__(self, group: str, *, consume_type: str, message_model: str, consume_from_where: str) -> None:
        self.group = group
        self._data = ConsumerData(
            group_name=group,
            consume_type=consume_type,
            message_model=message_model,
            consume_from_where=consume_from_where,
        )
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._newest: dict[str, int] = {}

    def producers(self) -> list[ProducerData]:
        """Return no producer group."""
        return []

    def consumers(self) -> list[ConsumerData]:
        """Return the group with its subscriptions."""
        return [msgspec.structs.replace(self._data, subscription_data_set=list(self._subscriptions.values()))]

    def subscriptions(self) -> dict[str, SubscriptionData]:
        """Return the subscriptions by topic."""
        return dict(self._subscriptions)

    def subscribe(self, subscription: SubscriptionData) -> SubscriptionData:
        """Add a subscription, or replace that of the same topic; return it with its version."""
        topic = subscription.topic
        version = max(subscription.sub_version, self._newest.get(topic, 0) + 1)
        self._newest[topic] = version
        made = msgspec.structs.replace(subscription, sub_version=version)
        self._subscriptions[topic] = made
        return made

    def unsubscribe(self, topic: str) -> None:
        """Remove the subscription to a topic, if there is one."""
        self._subscriptions.pop(topic, None)

    def renew(self, topic: str) -> None:
        """Give a subscription a new version, as RocketMQ does when the queues of the client have changed."""
        self.subscribe(msgspec.structs.replace(self._subscriptions[topic], sub_version=now_ms()))

    def note_version(self, topic: str, version: int) -> None:
        """Take note of a version that a broker has of a topic; this client's next one is above it."""
        self._newest[topic] = max(version, self._newest.get(topic, 0))


async def client_ids(cluster: Cluster, topic: str, group: str) -> list[str]:
    """Return the sorted ids of a group's clients, as one broker of the topic knows them (38).

    Raises ClientError: RequestRefusedError where the broker knows no client of the group.
    """
    address = await _address_of_any_broker(cluster, topic)
    header = GetConsumerListByGroupRequestHeader(consumer_group=group)
    reply = await cluster.request(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    try:
        return sorted_client_ids(decode_body(reply.body, GetConsumerListByGroupResponseBody).consumer_id_list)
    except RemotingError as error:
        raise ClientError(f"{address}: the clients of group {group!r} cannot be read: {error}") from None


async def check_subscription(cluster: Cluster, group: str, subscription: SubscriptionData) -> None:
    """Ask a broker of the topic whether it understands an SQL expression (46); tags need no question.

    Raises RequestRefusedError where it does not, or does not filter by SQL.
    """
    if subscription.expression_type == TAG:
        return
    body = CheckClientRequestBody(client_id=cluster.client_id, group=group, subscription_data=subscription)
    address = await _address_of_any_broker(cluster, subscription.topic)
    await cluster.request(address, RequestCode.CHECK_CLIENT_CONFIG, body=encode_body(body))


async def _address_of_any_broker(cluster: Cluster, topic: str) -> str:
    route = await cluster.route(topic)
    brokers = [one for one in route.broker_datas if one.broker_addrs]
    if not brokers:
        raise NoBrokerAddressError(f"topic {topic!r} has no broker with an address: is one running?")
    return cluster.broker_address(random.choice(brokers).broker_name, or_any=True)


def now_ms() -> int:
    """Return the time in ms since 1970."""
    return int(time.time() * 1000)
