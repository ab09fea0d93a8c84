"""Notices that the members of a group have changed, and the settings of broker and group that end them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import ConsumerData, HeartbeatData, encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.client import HeartbeatRequestHeader, UnregisterClientRequestHeader
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.support.simulated_loop import Node, SimulatedLoop, simulated_time
from tests.support.simulated_network import SimulatedNetwork, simulated_network

PORT = 10_911
ADDRESS = f"127.0.0.1:{PORT}"
SMALL = {"mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "100", "maxIndexNum": "400"}


@pytest.fixture
def network() -> Iterator[SimulatedNetwork]:
    with closing(SimulatedLoop(1)) as loop, simulated_time(loop), simulated_network(loop, 1) as found:
        yield found


class Member:
    """A client of the group `g`, and the number of notices that it got."""

    def __init__(self, client_id: str) -> None:
        self._id = client_id
        self._peers = Peers({RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._note})
        self.notices = 0

    def _note(self, channel: Channel, command: Command) -> None:
        self.notices += 1

    async def join(self) -> None:
        data = HeartbeatData(client_id=self._id, consumer_data_set=[ConsumerData(group_name="g")])
        await self._peers.request(ADDRESS, RequestCode.HEART_BEAT, HeartbeatRequestHeader(), body=encode_body(data))

    async def leave(self) -> None:
        header = UnregisterClientRequestHeader(client_id=self._id, consumer_group="g")
        await self._peers.request(ADDRESS, RequestCode.UNREGISTER_CLIENT, header)

    async def disconnect(self) -> None:
        await self._peers.close()
        await asyncio.sleep(1.0)


@pytest.mark.parametrize(
    ("broker_notifies", "group_notifies", "expected"),
    [(True, True, [1, 2, 3]), (True, False, [0, 0, 1]), (False, True, [0, 0, 0])],
)
def test_members_hear_of_others_as_the_settings_say(
    broker_notifies: bool, group_notifies: bool, expected: list[int], network: SimulatedNetwork, tmp_path: Path
) -> None:
    """Count the notices of a member after another one has joined, has left, and after a third one has disconnected."""
    given = {
        **SMALL,
        "listenPort": str(PORT),
        "storePathRootDir": str(tmp_path / "store"),
        "notifyConsumerIdsChangedEnable": str(broker_notifies).lower(),
    }

    async def serve() -> list[int]:
        broker = Broker(*load_broker_settings(None, given, {}))
        await broker.start()
        async with AdminClient(ClientOptions(name_servers="127.0.0.1:1")) as admin:
            group = SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=group_notifies)
            await admin.create_group(ADDRESS, group)
        first, second, third = (Member(name) for name in "abc")
        await first.join()
        await asyncio.sleep(1.0)
        found, before = [], first.notices
        await second.join()
        await asyncio.sleep(1.0)
        found.append(first.notices - before)
        await second.leave()
        await asyncio.sleep(1.0)
        found.append(first.notices - before)
        await third.join()
        await asyncio.sleep(1.0)
        joined = first.notices
        await third.disconnect()
        found.append(found[-1] + first.notices - joined)
        await first.disconnect()
        await broker.stop()
        return found

    assert network.loop.run_until_complete(Node("broker", network.loop).spawn(serve())) == expected
