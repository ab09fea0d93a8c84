"""A broker and NameServers that start in any order."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.testing.ports import free_port
from tests.support.servers import running, running_broker

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
