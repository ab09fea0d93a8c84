"""A broker and NameServers that start in any order."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.namesrv.kv_config import ORDER_TOPICS
from rocketflow.namesrv.service import NameServer
from rocketflow.namesrv.settings import NamesrvSettings
from rocketflow.remoting.bodies import ClusterInfo, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.route import GetRouteInfoRequestHeader, PutKVConfigRequestHeader
from rocketflow.remoting.store_bodies import CommitProgressBody
from rocketflow.testing.ports import free_port
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import send_header
from tests.support.servers import running, running_broker

CODE = RequestCode

PERIOD_SECONDS = 60.0
"""The longest period of registrations that a broker may be given."""


def test_broker_that_starts_first_registers_once_the_name_server_is_up(tmp_path: Path) -> None:
    port = free_port()
    settings = (f"namesrvAddr=127.0.0.1:{port}", f"registerNameServerPeriod={PERIOD_SECONDS * 1000:.0f}")

    async def registered() -> None:
        async with AdminClient(ClientOptions(name_servers=f"127.0.0.1:{port}")) as admin:
            async with asyncio.timeout(PERIOD_SECONDS / 2):
                while not (await admin.cluster_info()).broker_addr_table:
                    await asyncio.sleep(0.05)

    with running_broker(tmp_path / "broker", *settings) as broker:
        assert "did not take the registration" in broker.log.read_text()
        with running("namesrv", tmp_path / "names", port=port):
            run(registered())


def test_broker_starts_and_stops_although_a_name_server_never_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hours = "registerBrokerTimeoutMills=7200000"
        address = f"namesrvAddr=127.0.0.1:{silent.getsockname()[1]}"
        with running_broker(tmp_path / "broker", address, hours) as broker:
            broker.stop_in_order()
            assert "did not take the registration" in broker.log.read_text()


def test_a_broker_registers_at_all_name_servers_and_takes_the_table_of_ordered_topics(tmp_path: Path) -> None:
    ordered = PutKVConfigRequestHeader(namespace=ORDER_TOPICS, key="t", value="broker-a:4")

    async def trial() -> None:
        homes = (tmp_path / "a", tmp_path / "b")
        async with AsyncExitStack() as stack:
            peers = Peers()
            stack.push_async_callback(peers.close)
            addresses = []
            for home in homes:
                names = NameServer(NamesrvSettings(listen_port=0, kv_config_path=str(home / "kv.json")))
                await names.start()
                stack.push_async_callback(names.stop)
                addresses.append(f"127.0.0.1:{names.port}")
                answer = await peers.request(addresses[-1], CODE.PUT_KV_CONFIG, ordered)
                assert answer.code == ResponseCode.SUCCESS
            options = {**options_at(tmp_path), "namesrvAddr": ";".join(addresses)}
            settings, config, given = load_broker_settings(None, options, {})
            broker = Broker(settings, config, given)
            await broker.start()
            stack.push_async_callback(broker.stop)
            broker_names = [await known_brokers(peers, one) for one in addresses]
            assert broker_names == [{"broker-a": {"0": settings.broker_address}}] * 2
            for topic in ("t", "u"):
                sent = await peers.request(settings.broker_address, CODE.SEND_MESSAGE, send_header(topic), body=b"x")
                assert sent.code == ResponseCode.SUCCESS
            async with asyncio.timeout(PERIOD_SECONDS / 2):
                while (found := await ordered_topics(peers, settings.broker_address)) != {"t"}:
                    assert not found
                    await asyncio.sleep(0.02)
            await broker.stop()
            assert [await known_brokers(peers, one) for one in addresses] == [{}, {}]

    run(trial())


def test_commit_that_makes_a_topic_is_answered_once_the_name_server_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Peers.request

    async def register_late(peers: Peers, address: str, code: int, *given: Any, **more: Any) -> Command:
        if code == CODE.REGISTER_BROKER:
            await asyncio.sleep(0.5)
        return await ask(peers, address, code, *given, **more)

    async def trial() -> None:
        async with AsyncExitStack() as stack:
            peers = Peers()
            stack.push_async_callback(peers.close)
            names = NameServer(NamesrvSettings(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
            await names.start()
            stack.push_async_callback(names.stop)
            address = f"127.0.0.1:{names.port}"
            settings, config, given = load_broker_settings(None, {**options_at(tmp_path), "namesrvAddr": address}, {})
            broker = Broker(settings, config, given)
            await broker.start()
            stack.push_async_callback(broker.stop)
            monkeypatch.setattr(Peers, "request", register_late)
            body = CommitProgressBody(sink_id="s", run_id="r", progress={}, parts=[], queues={}, least_queues={"t": 2},
                                      sync=False)  # fmt: skip
            request = encode_body(body)
            done = await peers.request(settings.broker_address, CODE.ROCKETFLOW_COMMIT_PROGRESS, body=request)
            assert done.code == ResponseCode.SUCCESS, done.remark
            route = await peers.request(address, CODE.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic="t"))
            assert route.code == ResponseCode.SUCCESS, route.remark

    run(trial())


async def known_brokers(peers: Peers, address: str) -> dict[str, dict[str, str]]:
    found = decode_body((await peers.request(address, CODE.GET_BROKER_CLUSTER_INFO)).body, ClusterInfo)
    return {name: one.broker_addrs for name, one in found.broker_addr_table.items()}


async def ordered_topics(peers: Peers, address: str) -> set[str]:
    found = loads((await peers.request(address, CODE.GET_ALL_TOPIC_CONFIG)).body)
    return {name for name, one in found["topicConfigTable"].items() if one["order"]}
