"""Requests of operators: groups, clients, figures.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rocketflow import __version__
from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.server import Processor, RefusedError, Request
from rocketflow.broker.figures.stats import NAMES
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import VERSION
from rocketflow.remoting.headers import admin as headers

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.broker.figures.runtime_figures import RuntimeFigures
    from rocketflow.broker.figures.stats import BrokerStats
    from rocketflow.broker.groups.clients import Client, ConsumerTable, ProducerTable
    from rocketflow.broker.groups.groups import Groups
    from rocketflow.broker.groups.offsets import GroupOffsets
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics.topics import Topics

VERSION_NAME: Final = "V5_3_3"


class Admin:
    """Requests of operators."""

    def __init__(
        self,
        topics: Topics,
        groups: Groups,
        offsets: GroupOffsets,
        producers: ProducerTable[Channel],
        consumers: ConsumerTable[Channel],
        settings: BrokerSettings,
        figures: RuntimeFigures,
        stats: BrokerStats,
    ) -> None:
        self._figures = figures
        self._stats = stats
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._producers = producers
        self._consumers = consumers
        self._settings = settings
        self._started_ms = int(time.time() * 1000)

    def by_code(self) -> Mapping[int, Processor]:
        """Return the processor of each request code."""
        code = RequestCode
        return {
            code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._put_groups,
            code.GET_ALL_PRODUCER_INFO: self._get_all_producers,
            code.VIEW_BROKER_STATS_DATA: self._get_counts,
            code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._put_group,
            code.DELETE_SUBSCRIPTIONGROUP: self._delete_group,
            code.GET_SUBSCRIPTIONGROUP_CONFIG: self._get_group,
            code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._get_groups,
            code.GET_CONSUMER_CONNECTION_LIST: self._get_consumers,
            code.GET_PRODUCER_CONNECTION_LIST: self._get_producers,
            code.QUERY_TOPIC_CONSUME_BY_WHO: self._get_groups_of_topic,
            code.QUERY_TOPICS_BY_CONSUMER: self._get_topics_of_group,
            code.GET_BROKER_RUNTIME_INFO: self._get_runtime_info,
            code.GET_ALL_CONSUMER_OFFSET: self._get_all_offsets,
        }

    # --- groups

    async def _put_group(self, request: Request) -> None:
        await self._groups.change([decode_body(request.command.body, bodies.SubscriptionGroupConfig)])
        request.reply()

    async def _put_groups(self, request: Request) -> None:
        await self._groups.change(decode_body(request.command.body, bodies.SubscriptionGroupList).group_config_list)
        request.reply()

    async def _delete_group(self, request: Request) -> None:
        header = request.command.header(headers.DeleteSubscriptionGroupRequestHeader)
        await self._groups.delete(header.group_name)
        self._stats.group_deleted(header.group_name)
        if header.clean_offset or header.remove_offset:
            self._offsets.delete_group(header.group_name)
        request.reply()

    def _get_group(self, request: Request) -> None:
        header = request.command.header(headers.GetSubscriptionGroupConfigRequestHeader)
        config = self._groups.get(header.group)
        if config is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group}"
            )
        request.reply(body=encode_body(config.to_json()))

    def _get_groups(self, request: Request) -> None:
        request.reply(body=encode_body(self._groups.wrapper()))

    # --- clients

    def _get_consumers(self, request: Request) -> None:
        header = request.command.header(headers.GetConsumerConnectionListRequestHeader)
        group = self._consumers.get(header.consumer_group)
        if group is None:
            raise RefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumer_group}] not online"
            )
        found = {
            "connectionSet": [_connection(one) for one in group.clients.values()],
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": group.subscriptions,
        }
        request.reply(body=encode_body(found))

    def _get_producers(self, request: Request) -> None:
        header = request.command.header(headers.GetProducerConnectionListRequestHeader)
        members = self._producers.members(header.producer_group)
        if not members:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        request.reply(body=encode_body({"connectionSet": [_connection(one) for one in members]}))

    def _get_all_producers(self, request: Request) -> None:
        now = int(time.time() * 1000)
        data = {
            group: [
                {
                    "clientId": one.client_id,
                    "language": one.language,
                    "lastUpdateTimestamp": now - (monotonic_ms() - one.last_update_ms),
                    "remoteIP": f"/{one.channel.address}",  # as Java writes a socket's address
                    "version": one.version,
                }
                for one in members
            ]
            for group, members in self._producers.groups().items()
        }
        request.reply(body=encode_body({"data": data}))

    def _get_groups_of_topic(self, request: Request) -> None:
        header = request.command.header(headers.QueryTopicConsumeByWhoRequestHeader)
        groups = {*self._consumers.groups_of_topic(header.topic), *self._offsets.groups_of_topic(header.topic)}
        request.reply(body=encode_body(bodies.GroupList(group_list=sorted(groups))))

    def _get_topics_of_group(self, request: Request) -> None:
        header = request.command.header(headers.QueryTopicsByConsumerRequestHeader)
        topics = sorted(self._offsets.of_group(header.group))
        request.reply(body=encode_body(bodies.TopicList(broker_addr=self._settings.broker_address, topic_list=topics)))

    def _get_all_offsets(self, request: Request) -> None:
        request.reply(body=encode_body({"offsetTable": self._offsets.as_json()}))

    # --- figures

    def _get_counts(self, request: Request) -> None:
        """Answer with the counts of the last minute, hour and day under a name and a key (request 315)."""
        header = request.command.header(headers.ViewBrokerStatsDataRequestHeader)
        name, key = header.stats_name, header.stats_key
        if name not in NAMES:
            raise RefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{name}> are not counted by RocketFlow's broker; it counts {', '.join(NAMES)}",
            )
        found = self._stats.view(name, key)
        if found is None:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{key}> not exist")
        request.reply(body=encode_body(found))

    async def _get_runtime_info(self, request: Request) -> None:
        table = {
            **await self._figures.table(),
            "brokerVersionDesc": VERSION_NAME,
            "brokerVersion": str(VERSION),
            "rocketflowVersion": __version__,
            "bootTimestamp": str(self._started_ms),
            "startAcceptSendRequestTimeStamp": str(self._settings.start_accept_send_request_time_stamp),
            "brokerActive": "true",
        }
        request.reply(body=encode_body(bodies.KVTable(table=table)))


def _connection(client: Client[Channel]) -> dict[str, Any]:
    return {
        "clientAddr": client.channel.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }
