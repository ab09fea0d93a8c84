"""An Apache broker registers at RocketFlow's NameServer, and Apache's client finds it there."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

from rocketflow.aio.peers import Peers
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.route import GetRouteInfoRequestHeader
from rocketflow_store import MessageStore
from tests.apache.test_apache_opens_rocketflow_stores import SIZES
from tests.support.real_broker import RealBroker
from tests.support.servers import running
from tests.support.trials import LEVEL

pytestmark = [pytest.mark.apache, pytest.mark.slow]


def route(port: int, topic: str) -> Command:
    async def ask() -> Command:
        peers = Peers()
        header = GetRouteInfoRequestHeader(topic=topic)
        try:
            return await peers.request(f"127.0.0.1:{port}", RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        finally:
            await peers.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("version", ["5.3.3"] if LEVEL == "sample" else ["5.3.3", "4.9.7"])
def test_an_apache_broker_serves_its_client_by_our_name_server(version: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with MessageStore.open(store, SIZES) as own:
        own.create_topic("t", 2)
    body = base64.b64encode(b"hello").decode()
    names_home = tmp_path / "names"
    with running("namesrv", names_home, "--set", f"kvConfigPath={names_home}/kv.json") as names:
        with RealBroker(version, store, SIZES, tmp_path / "work", names_port=names.port) as broker:
            found = broker.ask("t", [f"SEND\tt\t1\t{body}\ta\tk", "PULL\tt\t1"])
            assert next(one for one in found if one[0] == "SENT")[:3] == ["SENT", "SEND_OK", "0"]
            assert [one[-1] for one in found if one[0] == "MESSAGE"] == [body]
            assert route(names.port, "t").code == 0
        assert route(names.port, "t").code == 17
        assert names.stop() == 0
