"""Requests of operators about the settings of groups, the clients and the topics of groups.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java, QueryAssignmentProcessor.java (setMessageRequestMode).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rocketflow.access.permissions import (
    CLUSTER_CHANGE,
    CLUSTER_READ,
    Action,
    Kind,
    Need,
    Needs,
    change_row,
    client_row,
    group_of,
    read_row,
    topic_of,
)
from rocketflow.access.served import serves
from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.server import RefusedError, Request
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import decode_body, decode_rows, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers import admin as headers
from rocketflow_store.spi.names import RETRY_PREFIX
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rocketflow.aio.channel import Channel
    from rocketflow.broker.figures import BrokerStats
    from rocketflow.broker.groups.clients import Client
    from rocketflow.broker.groups.tables import Tables
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.remoting.command import Command

PULL_MODE: Final = "PULL"


def _of_body(command: Command) -> Iterator[Need]:
    name = decode_body(command.body, SubscriptionGroupConfig).group_name
    yield Need(Kind.GROUP, name, frozenset({Action.CREATE, Action.UPDATE}))


class GroupRequests:
    """Requests of operators about settings and clients."""

    def __init__(self, settings: BrokerSettings, tables: Tables, stats: BrokerStats) -> None:
        self._settings = settings
        self._stats = stats
        self._topics, self._groups, self._offsets = tables.topics, tables.groups, tables.offsets
        self._producers, self._consumers = tables.producers, tables.consumers

    # --- groups

    @serves(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        change_row(Needs("group of the body: Create or Update", _of_body)),
    )
    async def _put_group(self, request: Request) -> None:
        await self._groups.change([decode_body(request.command.body, SubscriptionGroupConfig)])
        request.reply()

    @serves(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, CLUSTER_CHANGE)
    async def _put_groups(self, request: Request) -> None:
        await self._groups.change(decode_rows(request.command.body, "groupConfigList", SubscriptionGroupConfig))
        request.reply()

    @serves(RequestCode.DELETE_SUBSCRIPTIONGROUP, change_row(group_of(Action.DELETE, field="groupName")))
    async def _delete_group(self, request: Request) -> None:
        header = request.command.header(headers.DeleteSubscriptionGroupRequestHeader)
        await self._groups.delete(header.group_name)
        self._stats.group_deleted(header.group_name)
        if header.clean_offset or header.remove_offset:
            self._offsets.delete_group(header.group_name)
        request.reply()

    @serves(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, client_row(group_of(Action.GET, field="group")))
    def _get_group(self, request: Request) -> None:
        header = request.command.header(headers.GetSubscriptionGroupConfigRequestHeader)
        config = self._groups.get(header.group)
        if config is None:
            raise RefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {header.group}"
            )
        request.reply(body=encode_body(config))

    @serves(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, CLUSTER_READ)
    def _get_groups(self, request: Request) -> None:
        request.reply(body=encode_body(self._groups.wrapper()))

    # --- clients

    @serves(RequestCode.GET_CONSUMER_CONNECTION_LIST, read_row(group_of(Action.GET)))
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

    @serves(RequestCode.GET_PRODUCER_CONNECTION_LIST, CLUSTER_READ)
    def _get_producers(self, request: Request) -> None:
        header = request.command.header(headers.GetProducerConnectionListRequestHeader)
        members = self._producers.members(header.producer_group)
        if not members:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        request.reply(body=encode_body({"connectionSet": [_connection(one) for one in members]}))

    @serves(RequestCode.GET_ALL_PRODUCER_INFO, CLUSTER_READ)
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

    @serves(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, read_row(topic_of(Action.GET)))
    def _get_groups_of_topic(self, request: Request) -> None:
        header = request.command.header(headers.QueryTopicConsumeByWhoRequestHeader)
        groups = {*self._consumers.groups_of_topic(header.topic), *self._offsets.groups_of_topic(header.topic)}
        request.reply(body=encode_body(bodies.GroupList(group_list=sorted(groups))))

    @serves(RequestCode.QUERY_TOPICS_BY_CONSUMER, read_row(group_of(Action.GET, field="group")))
    def _get_topics_of_group(self, request: Request) -> None:
        header = request.command.header(headers.QueryTopicsByConsumerRequestHeader)
        topics = sorted(self._offsets.of_group(header.group))
        request.reply(body=encode_body(bodies.TopicList(broker_addr=self._settings.broker_address, topic_list=topics)))

    @serves(RequestCode.GET_ALL_CONSUMER_OFFSET, CLUSTER_READ)
    def _get_all_offsets(self, request: Request) -> None:
        request.reply(body=encode_body({"offsetTable": self._offsets.as_json()}))

    @serves(RequestCode.SET_MESSAGE_REQUEST_MODE, CLUSTER_CHANGE)
    async def _set_mode(self, request: Request) -> None:
        """Take note that a group pulls a topic, as all do; another mode is refused (request 401)."""
        body = decode_body(request.command.body, bodies.SetMessageRequestModeRequestBody)
        if body.topic.startswith(RETRY_PREFIX):
            raise RefusedError(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        self._topics.known(body.topic)
        if body.mode != PULL_MODE:
            raise RefusedError(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f"mode {body.mode} is not supported: consumers of this broker pull (mode {PULL_MODE})",
            )
        if await self._groups.for_use(body.consumer_group) is None:
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        request.reply()


def _connection(client: Client[Channel]) -> dict[str, Any]:
    return {
        "clientAddr": client.channel.address,
        "clientId": client.client_id,
        "language": client.language,
        "version": client.version,
    }
