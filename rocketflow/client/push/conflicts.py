"""Subscriptions of a group that differ between its clients: brokers keep the newest one, so that messages are lost.

RocketMQ's source: broker/client/ConsumerGroupInfo.java (updateSubscription), which clients cannot see; the request is
that of tools/command/consumer/ConsumerProgressSubCommand.java.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rocketflow.client.admin.figures import ConsumerConnection
from rocketflow.client.errors import ClientError
from rocketflow.remoting.bodies import SubscriptionData, decode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.errors import RemotingError
from rocketflow.remoting.headers.admin import GetConsumerConnectionListRequestHeader

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.consume.membership import GroupMembership

LOG: Final = logging.getLogger("rocketflow.client")


def differences(own: Mapping[str, SubscriptionData], group: Mapping[str, SubscriptionData]) -> list[str]:
    """Return how a client's subscriptions differ from those that a broker has of its group, one text for each topic."""
    found = []
    for topic in sorted({*own, *group}):
        mine, other = own.get(topic), group.get(topic)
        if mine is None:
            found.append(f"other clients read topic {topic}, this one does not")
        elif other is None:
            found.append(f"this client reads topic {topic}, others do not: its messages are not delivered")
        elif (mine.expression_type, mine.sub_string) != (other.expression_type, other.sub_string):
            found.append(
                f"topic {topic}: this client subscribes to {mine.sub_string!r} ({mine.expression_type}), another one "
                f"to {other.sub_string!r} ({other.expression_type}), which the broker selects by"
            )
    return found


class SubscriptionCheck:
    """Compares the subscriptions of a client with those of its group at a broker; `conflicts` has what differed."""

    def __init__(self, cluster: Cluster, membership: GroupMembership) -> None:
        self._cluster = cluster
        self._membership = membership
        self.conflicts: list[str] = []

    async def compare(self) -> None:
        """Ask one broker (203), and log what differs when it changes."""
        addresses = [one for broker in self._cluster.brokers().values() for one in broker.broker_addrs.values()]
        if not addresses:
            return
        header = GetConsumerConnectionListRequestHeader(consumer_group=self._membership.group)
        try:
            reply = await self._cluster.request(
                random.choice(addresses), RequestCode.GET_CONSUMER_CONNECTION_LIST, header
            )
            group = decode_body(reply.body, ConsumerConnection)
        except (ClientError, RemotingError) as error:
            LOG.debug("group %s: subscriptions were not compared: %s", self._membership.group, error)
            return
        if all(one.client_id != self._cluster.client_id for one in group.connection_set):
            return  # the broker has no heartbeat of this client yet
        own = self._membership.subscriptions()
        found = differences(own, group.subscription_table)
        if found and len(group.connection_set) == 1:
            for topic in own:
                self._membership.renew(topic)  # the broker still has those of a client that left
            await self._cluster.send_heartbeats()
            found = []
        if found and found != self.conflicts:
            LOG.error(
                "group %s: all clients of a group have to subscribe alike: %s", self._membership.group, "; ".join(found)
            )
        self.conflicts = found
