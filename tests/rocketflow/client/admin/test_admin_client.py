"""The operator's client against a NameServer and a broker of RocketFlow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue, TopicConfig
from tests.support.servers import RunningServer, running, running_broker, send, wait_for_a_broker

BROKER = "broker-a"


class Servers:
    def __init__(self, names: RunningServer, broker: RunningServer) -> None:
        self.names, self.broker = names, broker

    def ask(self, call: Callable[[AdminClient], Awaitable[object]]) -> object:
        async def asked() -> object:
            async with AdminClient(ClientOptions(name_servers=self.names.address)) as admin:
                return await call(admin)

        return run(asked())


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    home = tmp_path_factory.mktemp("admin")
    with (
        running("namesrv", home / "names") as names,
        running_broker(home / "broker", f"namesrvAddr={names.address}") as broker,
    ):
        wait_for_a_broker(names.address)
        yield Servers(names, broker)


def test_created_topic_has_a_route_and_is_changed_by_a_second_call(servers: Servers) -> None:
    async def call(admin: AdminClient) -> None:
        at = servers.broker.address
        await admin.create_topic(at, TopicConfig(topic_name="made", read_queue_nums=3, write_queue_nums=2))
        (data,) = (await admin.route("made")).queue_datas
        assert (data.broker_name, data.read_queue_nums, data.write_queue_nums) == (BROKER, 3, 2)
        await admin.create_topic(at, TopicConfig(topic_name="made", perm=4))
        assert (await admin.topic_config(at, "made")).perm == 4

    servers.ask(call)


def test_offsets_of_a_queue_follow_its_messages(servers: Servers) -> None:
    send(servers.broker, "counted", ["a", "b", "c"])
    queue = MessageQueue("counted", BROKER, 0)

    async def call(admin: AdminClient) -> None:
        assert (await admin.min_offset(queue), await admin.max_offset(queue)) == (0, 3)
        assert await admin.search_offset(queue, 0) == 0
        assert (await admin.topic_status("counted"))[queue].max_offset == 3

    servers.ask(call)
