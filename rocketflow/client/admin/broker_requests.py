"""Requests about brokers: those of a cluster, their figures, their settings.

RocketMQ's source: client/impl/MQClientAPIImpl.java, tools/command/CommandUtil.java.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketflow.client.errors import ClientError
from rocketflow.client.routes import MASTER_ID
from rocketflow.remoting.bodies import ClusterInfo, KVTable, decode_body
from rocketflow.remoting.codes import RequestCode

if TYPE_CHECKING:
    from rocketflow.client.cluster import Cluster


class UnknownClusterError(ClientError):
    """The NameServers know no cluster of a name."""


class BrokerRequests:
    """Requests about brokers. All raise ClientError, RequestRefusedError where a server refuses them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def cluster_info(self) -> ClusterInfo:
        """Return all brokers by name, and their names by cluster."""
        return decode_body((await self.cluster.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)).body, ClusterInfo)

    async def brokers_of(self, cluster_name: str) -> list[str]:
        """Return the addresses of the masters of a cluster, by broker name. Raises UnknownClusterError."""
        info = await self.cluster_info()
        if not info.cluster_addr_table:
            await self.cluster.wait_for_brokers()
            info = await self.cluster_info()
        if cluster_name not in info.cluster_addr_table:
            known = ", ".join(sorted(info.cluster_addr_table)) or "none"
            raise UnknownClusterError(
                f"no broker of a cluster {cluster_name!r} has registered; known clusters: {known}"
            )
        brokers = [info.broker_addr_table[one] for one in sorted(info.cluster_addr_table[cluster_name])]
        return [one.broker_addrs[MASTER_ID] for one in brokers if MASTER_ID in one.broker_addrs]

    async def runtime_info(self, broker_address: str) -> dict[str, str]:
        """Return a broker's figures by name."""
        reply = await self.cluster.request(broker_address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return decode_body(reply.body, KVTable).table

    async def broker_config(self, broker_address: str) -> dict[str, str]:
        """Return a broker's settings by key."""
        reply = await self.cluster.request(broker_address, RequestCode.GET_BROKER_CONFIG)
        lines = (line.partition("=") for line in reply.body.decode("utf-8", "replace").splitlines())
        return {key: value for key, sign, value in lines if sign}

    async def update_broker_config(self, broker_address: str, values: Mapping[str, str]) -> None:
        """Change settings of a broker; RocketFlow's broker refuses that."""
        body = "".join(f"{key}={value}\n" for key, value in values.items()).encode()
        await self.cluster.request(broker_address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


def attribute_changes(set_to: Mapping[str, str], removed: Iterable[str]) -> dict[str, str]:
    """Return changes of attributes as brokers take them, by signed names: `+name` sets one, `-name` removes it."""
    return {**{f"+{name}": value for name, value in set_to.items()}, **{f"-{name}": "" for name in removed}}
