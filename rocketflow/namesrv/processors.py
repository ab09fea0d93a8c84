"""Requests of clients, brokers and operators to a NameServer.

RocketMQ's source: namesrv/processor/DefaultRequestProcessor.java, ClientRequestProcessor.java.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from rocketflow.access.permissions import BROKER_ROW, CLUSTER_CHANGE, CLUSTER_READ, client_row
from rocketflow.access.served import serves
from rocketflow.aio.server import RefusedError, Request
from rocketflow.namesrv.kv_config import ORDER_TOPICS
from rocketflow.namesrv.registration import decode_registration
from rocketflow.namesrv.route_table import (
    UNIT_FLAG,
    UNIT_SUB_FLAG,
    BrokerKey,
    LeavingBroker,
    RegistrationRefusedError,
    Route,
)
from rocketflow.remoting.bodies import (
    BrokerMemberGroup,
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    TopicList,
    TopicRouteData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.fastjson import object_keys
from rocketflow.remoting.headers import route as headers
from rocketflow_store.spi.table_rows import DataVersion

if TYPE_CHECKING:
    from rocketflow.namesrv.kv_config import KvConfig
    from rocketflow.namesrv.route_table import RouteTable
    from rocketflow.namesrv.settings import NamesrvSettings
    from rocketflow.process.live_settings import LiveSettings

STANDARD_JSON_SINCE: Final = 401
"""Version ordinal of V4_9_4: older clients get `brokerAddrs` with bare numbers as keys."""


class Processors:
    """The processors of a NameServer."""

    def __init__(self, routes: RouteTable, kv: KvConfig, settings: NamesrvSettings, live: LiveSettings) -> None:
        self._routes = routes
        self._live = live
        self._kv = kv
        self._settings = settings
        self._started = time.monotonic()

    # --- routes

    @serves(RequestCode.GET_ROUTEINFO_BY_TOPIC, client_row())
    def _get_route(self, request: Request) -> None:
        header = request.command.header(headers.GetRouteInfoRequestHeader)
        waiting = self._settings.need_wait_for_service
        if waiting and time.monotonic() - self._started < self._settings.wait_seconds_for_service:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "name server not ready")
        route = self._routes.route(header.topic)
        if route is not None:
            route = _of_zone(route, request.command.fields)
        if route is None:
            raise RefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {header.topic}"
            )
        data = TopicRouteData(
            broker_datas=route.brokers,
            queue_datas=route.queues,
            filter_server_table=self._routes.filter_servers(route.brokers),
        )
        if self._settings.order_message_enable and (order := self._kv.get(ORDER_TOPICS, header.topic)) is not None:
            data.order_topic_conf = order
        standard = request.command.version >= STANDARD_JSON_SINCE or bool(header.accept_standard_json_only)
        request.reply(body=encode_body(data) if standard else _with_bare_numbers(data))

    # --- brokers

    @serves(RequestCode.REGISTER_BROKER, BROKER_ROW)
    def _register_broker(self, request: Request) -> None:
        header = request.command.header(headers.RegisterBrokerRequestHeader)
        registration = decode_registration(request.command, header)
        try:
            addresses = self._routes.register(registration, request.channel, _now_ms())
        except RegistrationRefusedError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"register broker failed: {error}") from None
        answer = headers.RegisterBrokerResponseHeader(
            ha_server_addr=addresses.ha or None, master_addr=addresses.master or None
        )
        ordered = self._kv.namespace(ORDER_TOPICS) if self._settings.return_order_topic_config_to_broker else None
        request.reply(header=answer, body=b"" if ordered is None else encode_body(KVTable(table=ordered)))

    @serves(RequestCode.UNREGISTER_BROKER, BROKER_ROW)
    def _unregister_broker(self, request: Request) -> None:
        header = request.command.header(headers.UnRegisterBrokerRequestHeader)
        self._routes.unregister(
            [LeavingBroker(header.cluster_name, header.broker_name, header.broker_id, header.broker_addr)]
        )
        request.reply()

    @serves(RequestCode.BROKER_HEARTBEAT, BROKER_ROW)
    def _broker_heartbeat(self, request: Request) -> None:
        header = request.command.header(headers.BrokerHeartbeatRequestHeader)
        self._routes.refresh(BrokerKey(header.cluster_name, header.broker_addr), _now_ms())
        request.reply()

    @serves(RequestCode.QUERY_DATA_VERSION, BROKER_ROW)
    def _query_data_version(self, request: Request) -> None:
        header = request.command.header(headers.QueryDataVersionRequestHeader)
        key = BrokerKey(header.cluster_name, header.broker_addr)
        registered = decode_body(request.command.body, DataVersion)
        known = self._routes.data_version(key)
        self._routes.refresh(key, _now_ms())
        request.reply(
            header=headers.QueryDataVersionResponseHeader(changed=known != registered),
            body=b"" if known is None else encode_body(known),
        )

    @serves(RequestCode.GET_BROKER_MEMBER_GROUP, client_row())
    def _get_member_group(self, request: Request) -> None:
        header = request.command.header(headers.GetBrokerMemberGroupRequestHeader)
        broker = self._routes.brokers().get(header.broker_name)
        group = BrokerMemberGroup(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_addrs={} if broker is None else broker.broker_addrs,
        )
        request.reply(body=encode_body(GetBrokerMemberGroupResponseBody(broker_member_group=group)))

    @serves(RequestCode.GET_BROKER_CLUSTER_INFO, client_row())
    def _get_cluster_info(self, request: Request) -> None:
        info = ClusterInfo(broker_addr_table=self._routes.brokers(), cluster_addr_table=self._routes.clusters())
        request.reply(body=encode_body(info))

    @serves(RequestCode.WIPE_WRITE_PERM_OF_BROKER, CLUSTER_CHANGE)
    def _wipe_write_permission(self, request: Request) -> None:
        header = request.command.header(headers.WipeWritePermOfBrokerRequestHeader)
        count = self._routes.change_permissions(header.broker_name, writable=False)
        request.reply(header=headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    @serves(RequestCode.ADD_WRITE_PERM_OF_BROKER, CLUSTER_CHANGE)
    def _add_write_permission(self, request: Request) -> None:
        header = request.command.header(headers.AddWritePermOfBrokerRequestHeader)
        count = self._routes.change_permissions(header.broker_name, writable=True)
        request.reply(header=headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count))

    # --- topics

    @serves(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, client_row())
    def _get_topics(self, request: Request) -> None:
        if not self._settings.enable_all_topic_list:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "disable")
        request.reply(body=encode_body(TopicList(topic_list=self._routes.topics())))

    @serves(RequestCode.GET_UNIT_TOPIC_LIST, client_row())
    def _get_unit_topics(self, request: Request) -> None:
        self._reply_topics(request, self._routes.topics_with_flag(UNIT_FLAG))

    @serves(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, client_row())
    def _get_unit_sub_topics(self, request: Request) -> None:
        self._reply_topics(request, self._routes.topics_with_flag(UNIT_SUB_FLAG))

    @serves(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, client_row())
    def _get_unit_sub_topics_of_no_unit(self, request: Request) -> None:
        self._reply_topics(request, self._routes.topics_with_flag(UNIT_SUB_FLAG, without=UNIT_FLAG))

    def _reply_topics(self, request: Request, topics: list[str]) -> None:
        if not self._settings.enable_topic_list:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, "disable")
        request.reply(body=encode_body(TopicList(topic_list=topics)))

    @serves(RequestCode.GET_TOPICS_BY_CLUSTER, client_row())
    def _get_topics_of_cluster(self, request: Request) -> None:
        header = request.command.header(headers.GetTopicsByClusterRequestHeader)
        self._reply_topics(request, self._routes.topics_of_cluster(header.cluster))

    @serves(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, client_row())
    def _get_system_topics(self, request: Request) -> None:
        clusters = self._routes.clusters()
        names = [*clusters, *(name for broker_names in clusters.values() for name in broker_names)]
        addresses = [one for broker in self._routes.brokers().values() for one in broker.broker_addrs.values()]
        topics = TopicList(topic_list=names)
        if addresses:
            topics.broker_addr = addresses[0]
        request.reply(body=encode_body(topics))

    @serves(RequestCode.DELETE_TOPIC_IN_NAMESRV, CLUSTER_CHANGE)
    def _delete_topic(self, request: Request) -> None:
        header = request.command.header(headers.DeleteTopicFromNamesrvRequestHeader)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        request.reply()

    @serves(RequestCode.REGISTER_TOPIC_IN_NAMESRV, CLUSTER_CHANGE)
    def _register_topic(self, request: Request) -> None:
        header = request.command.header(headers.RegisterTopicRequestHeader)
        if request.command.body:
            self._routes.add_queues(header.topic, decode_body(request.command.body, TopicRouteData).queue_datas)
        request.reply()

    # --- texts by key, and settings

    @serves(RequestCode.PUT_KV_CONFIG, CLUSTER_CHANGE)
    def _put_kv(self, request: Request) -> None:
        header = request.command.header(headers.PutKVConfigRequestHeader)
        self._change(lambda: self._kv.put(header.namespace, header.key, header.value))
        request.reply()

    @serves(RequestCode.DELETE_KV_CONFIG, CLUSTER_CHANGE)
    def _delete_kv(self, request: Request) -> None:
        header = request.command.header(headers.DeleteKVConfigRequestHeader)
        self._change(lambda: self._kv.delete(header.namespace, header.key))
        request.reply()

    def _change(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"the change cannot be kept: {error}") from None

    @serves(RequestCode.GET_KV_CONFIG, client_row())
    def _get_kv(self, request: Request) -> None:
        header = request.command.header(headers.GetKVConfigRequestHeader)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise RefusedError(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace} Key: {header.key}"
            )
        request.reply(header=headers.GetKVConfigResponseHeader(value=value))

    @serves(RequestCode.GET_KVLIST_BY_NAMESPACE, client_row())
    def _get_kv_namespace(self, request: Request) -> None:
        header = request.command.header(headers.GetKVListByNamespaceRequestHeader)
        texts = self._kv.namespace(header.namespace)
        if texts is None:
            raise RefusedError(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}")
        request.reply(body=encode_body(KVTable(table=texts)))

    @serves(RequestCode.GET_NAMESRV_CONFIG, CLUSTER_READ)
    def _get_config(self, request: Request) -> None:
        request.reply(body=self._settings.properties_text().encode())

    @serves(RequestCode.UPDATE_NAMESRV_CONFIG, CLUSTER_CHANGE)
    async def _update_config(self, request: Request) -> None:
        await self._live.change(request.command.body, request.channel.address)
        request.reply()


def _of_zone(route: Route, fields: Mapping[str, str]) -> Route | None:
    """Return the route as a client of one zone sees it: brokers of its zone, and those without a master."""
    zone = fields.get("__ZONE_NAME")
    if not zone or fields.get("__ZONE_MODE", "").lower() != "true":
        return route
    brokers = [one for one in route.brokers if one.zone_name == zone or "0" not in one.broker_addrs]
    names = {one.broker_name for one in brokers}
    return Route([one for one in route.queues if one.broker_name in names], brokers) if brokers else None


def _with_bare_numbers(data: TopicRouteData) -> bytes:
    """Return a route whose `brokerAddrs` have bare numbers as keys, as RocketMQ writes it for old clients."""
    plain = msgspec.to_builtins(data)
    for broker in plain["brokerDatas"]:
        broker["brokerAddrs"] = _bare_numbers(sorted(broker["brokerAddrs"].items()))
    return encode_body(plain)


def _bare_numbers(addresses: Iterable[tuple[str, str]]) -> msgspec.Raw:
    return msgspec.Raw(object_keys((number.encode(), encode_body(address)) for number, address in addresses))


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
