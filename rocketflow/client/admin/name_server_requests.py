"""Requests to each NameServer: its settings, texts by key, write permission of brokers; and brokers' statistics.

RocketMQ's source: tools/admin/DefaultMQAdminExtImpl.java, remoting/protocol/body/BrokerStatsData.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from rocketflow.client.admin.figures import decode_object
from rocketflow.client.admin.group_requests import GroupRequests
from rocketflow.client.errors import RequestRefusedError
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.headers.admin import ViewBrokerStatsDataRequestHeader
from rocketflow.remoting.headers.route import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKVConfigRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of the texts that make topics ordered."""


class MessageRate(NamedTuple):
    """Messages that a broker counted: a second, over the last minute, and within a day at most."""

    tps: float
    day_sum: int


class NameServerRequests(GroupRequests):
    """Requests to each NameServer. All raise ClientError, RequestRefusedError where a server refuses them."""

    async def name_server_configs(self) -> dict[str, dict[str, str]]:
        """Return the settings of each NameServer, by its address and key."""
        found = {}
        for address in self.cluster.options.addresses():
            reply = await self.cluster.request(address, RequestCode.GET_NAMESRV_CONFIG)
            lines = (line.partition("=") for line in reply.body.decode("utf-8", "replace").splitlines())
            found[address] = {key: value for key, sign, value in lines if sign}
        return found

    async def put_kv_config(self, namespace: str, key: str, value: str) -> None:
        """Set a text at all NameServers."""
        header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
        for address in self.cluster.options.addresses():
            await self.cluster.request(address, RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv_config(self, namespace: str, key: str) -> None:
        """Delete a text at all NameServers."""
        header = DeleteKVConfigRequestHeader(namespace=namespace, key=key)
        for address in self.cluster.options.addresses():
            await self.cluster.request(address, RequestCode.DELETE_KV_CONFIG, header)

    async def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Take a broker's topics out of the routes to send to; return the number of topics by NameServer."""
        header = WipeWritePermOfBrokerRequestHeader(broker_name=broker_name)
        found = {}
        for address in self.cluster.options.addresses():
            reply = await self.cluster.request(address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
            found[address] = reply.header(WipeWritePermOfBrokerResponseHeader).wipe_topic_count
        return found

    async def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Let clients send to a broker again; return the number of topics by NameServer."""
        header = AddWritePermOfBrokerRequestHeader(broker_name=broker_name)
        found = {}
        for address in self.cluster.options.addresses():
            reply = await self.cluster.request(address, RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
            found[address] = reply.header(AddWritePermOfBrokerResponseHeader).add_topic_count
        return found

    async def message_rate(self, addresses: list[str], name: str, key: str) -> MessageRate:
        """Return the sum of brokers' counts under a name (TOPIC_PUT_NUMS) and a key; they are 0 without messages."""
        header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
        tps, total = 0.0, 0
        for address in addresses:
            reply = await self.cluster.ask(address, RequestCode.VIEW_BROKER_STATS_DATA, header)
            if reply.code == ResponseCode.SYSTEM_ERROR:  # the broker has counted nothing under this key
                continue
            if reply.code != ResponseCode.SUCCESS:
                raise RequestRefusedError(address, RequestCode.VIEW_BROKER_STATS_DATA, reply.code, reply.remark)
            body = decode_object(reply.body)
            tps += float((body.get("statsMinute") or {}).get("tps") or 0)
            sums = (int((body.get(one) or {}).get("sum") or 0) for one in ("statsDay", "statsHour", "statsMinute"))
            total += next((one for one in sums if one), 0)
        return MessageRate(tps, total)
