"""One client's view of a cluster: routes, requests, heartbeats and the errors of servers that are away."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.cluster import Cluster
from rocketflow.client.errors import (
    ClientError,
    NoBrokerAddressError,
    NoNameServerError,
    NoRouteError,
    RequestRefusedError,
    UnreachableError,
)
from rocketflow.client.options import ClientOptions
from rocketflow.client.routes import publish_queues, subscribe_queues
from rocketflow.remoting.bodies import (
    BrokerData,
    ConsumerData,
    MessageQueue,
    ProducerData,
    QueueData,
    TopicRouteData,
)
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.headers.admin import GetProducerConnectionListRequestHeader
from tests.support.client_cluster import ClientCluster
from tests.support.ports import free_port
from tests.support.servers import RunningServer, running, running_broker, wait_for_a_broker

TEMPLATE = "TBW102"


class OneProducer:
    """A membership of one producer group."""

    def producers(self) -> list[ProducerData]:
        return [ProducerData(group_name="pg")]

    def consumers(self) -> list[ConsumerData]:
        return []


async def is_known(cluster: Cluster, broker: RunningServer) -> bool:
    """Return whether the broker knows a client of group `pg`."""
    header = GetProducerConnectionListRequestHeader(producer_group="pg")
    reply = await cluster.ask(broker.address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
    return reply.code == 0 and cluster.client_id.encode() in reply.body


async def until_known(cluster: Cluster, broker: RunningServer) -> None:
    async with asyncio.timeout(30):
        while not await is_known(cluster, broker):
            await asyncio.sleep(0.05)


def test_routes_are_asked_for_once_and_kept_while_no_name_server_answers(tmp_path: Path) -> None:
    async def ask(names: RunningServer) -> None:
        cluster = Cluster(ClientOptions(name_servers=names.address))
        await cluster.start()
        changed: list[str] = []
        cluster.on_route_change(changed.append)
        route = await cluster.route(TEMPLATE)
        names.kill()
        assert await cluster.route(TEMPLATE) is route
        await cluster.refresh_routes()
        assert await cluster.route(TEMPLATE) is route
        assert changed == [TEMPLATE]
        with pytest.raises(NoNameServerError, match=names.address):
            await cluster.route("other")
        await cluster.close()

    with (
        running("namesrv", tmp_path / "names") as names,
        running_broker(tmp_path / "broker", f"namesrvAddr={names.address}"),
    ):
        wait_for_a_broker(names.address)
        run(ask(names))


def test_another_name_server_is_asked_when_the_first_is_away(servers: ClientCluster) -> None:
    async def ask() -> None:
        away = f"127.0.0.1:{free_port()}"
        cluster = Cluster(ClientOptions(name_servers=f"{away};{servers.names.address};{away}"))
        for _ in range(3):
            assert (await cluster.ask_route(TEMPLATE)).broker_datas
        await cluster.close()

    run(ask())


def test_unknown_topics_and_brokers_have_errors_of_their_own(servers: ClientCluster) -> None:
    async def ask() -> None:
        cluster = Cluster(ClientOptions(name_servers=servers.names.address))
        with pytest.raises(NoRouteError, match="'nowhere'"):
            await cluster.route("nowhere")
        await cluster.route(TEMPLATE)
        with pytest.raises(NoBrokerAddressError, match="'none'"):
            cluster.broker_address("none")
        with pytest.raises(UnreachableError) as found:
            await cluster.ask(f"127.0.0.1:{free_port()}", RequestCode.GET_BROKER_RUNTIME_INFO)
        assert not found.value.sent
        with pytest.raises(RequestRefusedError) as refused:
            await cluster.request(servers.broker.address, 4999)
        assert refused.value.code == 3
        await cluster.close()

    run(ask())


def test_a_broker_that_started_again_knows_its_clients_at_their_next_request(tmp_path: Path) -> None:
    async def ask(names: RunningServer) -> None:
        cluster = Cluster(ClientOptions(name_servers=names.address), OneProducer())
        await cluster.start()
        port = free_port((-2, 1))
        for _ in range(2):
            with running_broker(tmp_path / "broker", f"namesrvAddr={names.address}", port=port) as broker:
                await asyncio.to_thread(wait_for_a_broker, names.address)
                await cluster.ask_route(TEMPLATE)
                await until_known(cluster, broker)
        await cluster.close()

    with running("namesrv", tmp_path / "names") as names:
        run(ask(names))


def test_heartbeats_are_repeated(servers: ClientCluster) -> None:
    async def ask() -> None:
        options = ClientOptions(name_servers=servers.names.address, heartbeat_s=0.05, route_refresh_s=0.05)
        cluster = Cluster(options, OneProducer())
        await cluster.start()
        await cluster.route(TEMPLATE)
        watcher = Cluster(ClientOptions(name_servers=servers.names.address))
        header = GetProducerConnectionListRequestHeader(producer_group="pg")
        async with asyncio.timeout(30):
            while (
                cluster.client_id.encode()
                not in (
                    await watcher.ask(servers.broker.address, RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
                ).body
            ):
                await asyncio.sleep(0.05)
        await watcher.close()
        await cluster.close()

    run(ask())


def test_a_client_needs_a_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ClientError, match="NAMESRV_ADDR"):
        ClientOptions().addresses()
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert ClientOptions().addresses() == ["a:1", "b:2"]
    assert ClientOptions(name_servers="c:3, d:4").addresses() == ["c:3", "d:4"]


def route(**more: str) -> TopicRouteData:
    return TopicRouteData(
        broker_datas=[
            BrokerData(broker_name="a", broker_addrs={"0": "a:1", "1": "a:2"}),
            BrokerData(broker_name="b", broker_addrs={"1": "b:2"}),
        ],
        queue_datas=[
            QueueData(broker_name="b", perm=6, read_queue_nums=1, write_queue_nums=1),
            QueueData(broker_name="a", perm=6, read_queue_nums=3, write_queue_nums=2),
        ],
        **more,
    )


def test_messages_go_to_brokers_with_a_master_and_are_read_from_all() -> None:
    assert publish_queues("t", route()) == [MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)]
    assert subscribe_queues("t", route()) == [
        *(MessageQueue("t", "a", number) for number in range(3)),
        MessageQueue("t", "b", 0),
    ]


def test_a_topic_that_a_send_creates_has_no_more_queues_than_asked_for() -> None:
    assert publish_queues("t", route(), at_most=1) == [MessageQueue("t", "a", 0)]
    assert len(publish_queues("t", route(), at_most=4)) == 3


def test_the_queues_of_an_ordered_topic_are_those_of_its_order() -> None:
    assert publish_queues("t", route(order_topic_conf="b:1;a:2;x:?")) == [
        MessageQueue("t", "b", 0),
        MessageQueue("t", "a", 0),
        MessageQueue("t", "a", 1),
    ]
