"""Subscriptions of a group that differ between its clients: brokers keep the newest one, so that messages are lost.

RocketMQ's source: broker/client/ConsumerGroupInfo.java (updateSubscription), which clients cannot see; the request is
that of tools/command/consumer/ConsumerProgressSubCommand.java.
"""

from __future__ import annotations

import asyncio
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
from rocketflow_store.spi.names import RETRY_PREFIX

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster
    from rocketflow.client.consume.membership import GroupMembership

LOG: Final = logging.getLogger("rocketflow.client")

_FIRST_S: Final = 1.0
"""The first comparison comes so early that commands that read for a short time report conflicts too."""


def differences(own: Mapping[str, SubscriptionData], group: Mapping[str, SubscriptionData]) -> list[str]:
    """Return how a client's subscriptions differ from those that a broker has of its group, one text for each topic.

    Retry topics do not count: consumers of some kinds read them and others do not.
    """
    found = []
    for topic in sorted(one for one in {*own, *group} if not one.startswith(RETRY_PREFIX)):
        mine, other = own.get(topic), group.get(topic)
        if mine is None:
            found.append(f"other clients read topic {topic}, this one does not")
        elif other is None:
            found.append(f"this client reads topic {topic}, others do not: its messages are not delivered")
        elif (mine.expression_type, mine.sub_string) != (other.expression_type, other.sub_string):
            found.append(
                f"topic {topic}: this client subscribes to {mine.sub_string!r} ({mine.expression_type}), another one "
                f"to {other.sub_string!r} ({other.expression_type}): messages of either are lost"
            )
    return found


class SubscriptionCheck:
    """Compares the subscriptions of a client with those of its group at a broker; `conflicts` has what differed."""

    def __init__(self, cluster: Cluster, membership: GroupMembership) -> None:
        self._cluster = cluster
        self._membership = membership
        self._members: set[str] = set()
        self._conflicts: list[str] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Compare after a second, and every `heartbeat_s` from then on; return the task. A second call adds nothing."""
        if self._task is None:
            self._task = self._cluster.spawn(self._compare_regularly())
        return self._task

    async def _compare_regularly(self) -> None:
        await asyncio.sleep(min(_FIRST_S, self._cluster.options.heartbeat_s))
        while True:
            await self.compare()
            await asyncio.sleep(self._cluster.options.heartbeat_s)

    @property
    def conflicts(self) -> list[str]:
        """Return what differed when it was compared last, one text for each topic."""
        return list(self._conflicts)

    async def compare(self) -> None:
        """Ask one broker (203), and log what differs when it changes.

        After another client has left, the broker may still have its subscriptions: those of this client are renewed,
        and differ no more once the broker has them.
        """
        addresses = [one for broker in self._cluster.brokers().values() for one in broker.broker_addrs.values()]
        if not addresses:
            return
        address = random.choice(addresses)
        group = await self._ask(address)
        if group is None:
            return
        members = {one.client_id for one in group.connection_set}
        found = differences(self._membership.subscriptions(), group.subscription_table)
        if found and (len(members) == 1 or self._members - members):
            for topic in self._membership.subscriptions():
                self._membership.renew(topic)
            await self._cluster.send_heartbeats()
            group = await self._ask(address) or group
            found = differences(self._membership.subscriptions(), group.subscription_table)
        self._members = members
        if found and found != self._conflicts:
            LOG.error(
                "group %s: all clients of a group have to subscribe alike: %s", self._membership.group, "; ".join(found)
            )
        self._conflicts = found

    async def _ask(self, address: str) -> ConsumerConnection | None:
        """Return what a broker has of the group; None if it does not answer, or has no heartbeat of this client yet."""
        header = GetConsumerConnectionListRequestHeader(consumer_group=self._membership.group)
        try:
            reply = await self._cluster.request(address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
            group = decode_body(reply.body, ConsumerConnection)
        except (ClientError, RemotingError) as error:
            LOG.debug("group %s: subscriptions were not compared: %s", self._membership.group, error)
            return None
        if all(one.client_id != self._cluster.client_id for one in group.connection_set):
            return None
        for topic, one in group.subscription_table.items():
            self._membership.note_version(topic, one.sub_version)
        return group
