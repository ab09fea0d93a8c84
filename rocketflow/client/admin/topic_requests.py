"""Requests about topics: create, change, delete, list, routes and bounds of queues.

RocketMQ's source: tools/admin/DefaultMQAdminExtImpl.java, client/impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rocketflow.client.admin.broker_requests import BrokerRequests, attribute_changes
from rocketflow.client.admin.figures import QueueBounds, decode_object, queue_table
from rocketflow.client.errors import RequestRefusedError
from rocketflow.client.routes import MASTER_ID
from rocketflow.remoting.bodies import GroupList, MessageQueue, TopicList, TopicRouteData, decode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import admin as headers
from rocketflow.remoting.headers.route import DeleteTopicFromNamesrvRequestHeader, GetTopicsByClusterRequestHeader
from rocketflow_store.spi.table_rows import TopicConfig

if TYPE_CHECKING:
    from rocketflow.remoting.command import Command

_TEMPLATE_TOPIC: Final = "TBW102"


class TopicRequests(BrokerRequests):
    """Requests about topics. All raise ClientError, RequestRefusedError where a server refuses them."""

    async def create_topic(self, broker_address: str, config: TopicConfig, *, removed: Iterable[str] = ()) -> None:
        """Create a topic at a broker, or change it; RocketFlow's answers once the NameServers have been sent it.

        The attributes of `config` are set, those whose names are `removed` are taken away, all others stay. Brokers
        refuse attributes that they do not know, and changes of `queue.type` and `cleanup.policy`.
        """
        changes = attribute_changes(config.attributes, removed)
        header = headers.CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic=_TEMPLATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=",".join(f"{key}={value}" if key.startswith("+") else key for key, value in changes.items())
            or None,
        )
        await self.cluster.request(broker_address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def topic_config(self, broker_address: str, topic: str) -> TopicConfig:
        """Return the settings of a topic at a broker."""
        header = headers.GetTopicConfigRequestHeader(topic=topic)
        reply = await self.cluster.request(broker_address, RequestCode.GET_TOPIC_CONFIG, header)
        return decode_body(reply.body, TopicConfig)

    async def delete_topic_at(self, broker_address: str, topic: str) -> None:
        """Delete a topic and its queues at a broker."""
        header = headers.DeleteTopicRequestHeader(topic=topic)
        await self.cluster.request(broker_address, RequestCode.DELETE_TOPIC_IN_BROKER, header)

    async def delete_topic(self, cluster_name: str, topic: str) -> list[str]:
        """Delete a topic at all brokers of a cluster, then its routes at all NameServers.

        Return the addresses of the brokers.
        """
        addresses = await self.brokers_of(cluster_name)
        for one in addresses:
            await self.delete_topic_at(one, topic)
        header = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster_name)
        for one in self.cluster.options.addresses():
            await self.cluster.request(one, RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
        return addresses

    async def topics(self) -> list[str]:
        """Return the names of all topics."""
        return _names(await self.cluster.ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))

    async def topics_of_cluster(self, cluster_name: str) -> list[str]:
        """Return the names of a cluster's topics."""
        header = GetTopicsByClusterRequestHeader(cluster=cluster_name)
        return _names(await self.cluster.ask_name_server(RequestCode.GET_TOPICS_BY_CLUSTER, header))

    async def topic_clusters(self, topic: str) -> list[str]:
        """Return the clusters whose brokers have a topic."""
        names = {one.broker_name for one in (await self.route(topic)).broker_datas}
        clusters = (await self.cluster_info()).cluster_addr_table
        return sorted(cluster for cluster, brokers in clusters.items() if names & set(brokers))

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic as a NameServer has it now. Raises NoRouteError."""
        return await self.cluster.ask_route(topic)

    async def masters(self, topic: str) -> list[str]:
        """Return the addresses of the masters of a topic's brokers, by broker name. Raises NoRouteError."""
        brokers = sorted((await self.route(topic)).broker_datas, key=lambda one: one.broker_name)
        return [one.broker_addrs[MASTER_ID] for one in brokers if MASTER_ID in one.broker_addrs]

    async def topic_status(self, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of a topic's queues at all brokers."""
        tables = await asyncio.gather(*(self.topic_status_at(one, topic) for one in await self.masters(topic)))
        return dict(sorted((queue, bounds) for table in tables for queue, bounds in table.items()))

    async def topic_status_at(self, broker_address: str, topic: str) -> dict[MessageQueue, QueueBounds]:
        """Return the bounds of a topic's queues at a broker."""
        header = headers.GetTopicStatsInfoRequestHeader(topic=topic)
        reply = await self.cluster.request(broker_address, RequestCode.GET_TOPIC_STATS_INFO, header)
        return queue_table(decode_object(reply.body), "offsetTable", QueueBounds)

    async def messages_by_queue(self, broker_address: str, topic: str) -> dict[int, int] | None:
        """Return the number of messages in each queue of a topic at a broker, None if the broker has no such topic."""
        try:
            status = await self.topic_status_at(broker_address, topic)
        except RequestRefusedError as error:
            if error.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        return {queue.queue_id: one.max_offset - one.min_offset for queue, one in status.items()}

    async def groups_of_topic(self, topic: str) -> list[str]:
        """Return the groups that read a topic or have offsets of it."""
        header = headers.QueryTopicConsumeByWhoRequestHeader(topic=topic)
        found: set[str] = set()
        for one in await self.masters(topic):
            reply = await self.cluster.request(one, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
            found.update(decode_body(reply.body, GroupList).group_list)
        return sorted(found)


def _names(reply: Command) -> list[str]:
    return sorted(decode_body(reply.body, TopicList).topic_list)
