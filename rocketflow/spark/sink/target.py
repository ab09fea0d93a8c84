"""The target of a sink over the network: the one broker of RocketFlow that it commits to, or brokers of RocketMQ."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import ClientError, RequestRefusedError
from rocketflow.client.options import ClientOptions
from rocketflow.client.routes import MASTER_ID
from rocketflow.client.store_client import NoBrokerError, NotAllowedError, NotRocketFlowError
from rocketflow.client.sync.bridge import LOOP
from rocketflow.remoting.bodies import ClusterInfo, decode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.spark.shared.option_values import OptionError
from rocketflow.store_writes import BrokerError

if TYPE_CHECKING:
    from rocketflow.spark.shared.network_options import Network

_PAUSE_S: Final = 0.2


def find_target(network: Network, broker_name: str | None) -> str | None:
    """Return the address of the RocketFlow broker to commit to, None if the brokers are RocketMQ's.

    Raises OptionError if `brokerName` is needed or names no broker, BrokerError if none answers within
    `networkTimeout`.
    """
    deadline = time.monotonic() + network.timeout_ms / 1000
    while True:
        try:
            masters = LOOP.wait(_masters(network))
            if broker_name is not None:
                masters = {name: address for name, address in masters.items() if name == broker_name}
            kinds = {address: _is_rocketflow(network, address) for address in masters.values()}
        except RequestRefusedError as error:
            raise BrokerError(str(error)) from None
        except (ClientError, NoBrokerError) as error:
            if time.monotonic() >= deadline:
                raise BrokerError(f"no broker answers: {error}") from None
            time.sleep(_PAUSE_S)
            continue
        if masters:
            return _chosen(masters, kinds)
        if time.monotonic() >= deadline:
            named = f" {broker_name}" if broker_name is not None else ""
            raise OptionError(
                "brokerName", f"option namesrvAddr={network.name_servers!r}: no broker{named} is registered"
            )
        time.sleep(_PAUSE_S)


def _chosen(masters: dict[str, str], kinds: dict[str, bool]) -> str | None:
    if not any(kinds.values()):
        return None
    if len(masters) > 1:
        raise OptionError(
            "brokerName",
            "option brokerName is missing: a batch is committed to one broker of RocketFlow; registered are "
            + ", ".join(sorted(masters)),
        )
    return next(iter(masters.values()))


async def _masters(network: Network) -> dict[str, str]:
    cluster = Cluster(ClientOptions(**network.client_options()))
    try:
        reply = await cluster.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
    finally:
        with suppress(Exception):
            await cluster.close()
    found = decode_body(reply.body, ClusterInfo).broker_addr_table
    return {name: one.broker_addrs[MASTER_ID] for name, one in found.items() if MASTER_ID in one.broker_addrs}


def _is_rocketflow(network: Network, address: str) -> bool:
    """Return False for a broker of RocketMQ. Raises BrokerError if the account may not commit."""
    try:
        network.store_client(address).info()
    except NotRocketFlowError:
        return False
    except NotAllowedError as error:
        raise BrokerError(f"{error}; commits over the network need an administrator's account") from None
    return True
