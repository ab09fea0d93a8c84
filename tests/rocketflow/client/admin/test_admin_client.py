"""The operator's client against a NameServer and a broker of RocketFlow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.remoting.bodies import MessageQueue, TopicConfig
from tests.support.client_cluster import BROKER, ClientCluster
from tests.support.servers import send


def ask(cluster: ClientCluster, call: Callable[[AdminClient], Awaitable[None]]) -> None:
    async def asked() -> None:
        async with cluster.admin() as admin:
            await call(admin)

    run(asked())


def test_created_topic_has_a_route_and_is_changed_by_a_second_call(cluster: ClientCluster) -> None:
    async def call(admin: AdminClient) -> None:
        at = cluster.broker.address
        await admin.create_topic(at, TopicConfig(topic_name="admin-made", read_queue_nums=3, write_queue_nums=2))
        (data,) = (await admin.route("admin-made")).queue_datas
        assert (data.broker_name, data.read_queue_nums, data.write_queue_nums) == (BROKER, 3, 2)
        await admin.create_topic(at, TopicConfig(topic_name="admin-made", perm=4))
        assert (await admin.topic_config(at, "admin-made")).perm == 4

    ask(cluster, call)


def test_offsets_of_a_queue_follow_its_messages(cluster: ClientCluster) -> None:
    send(cluster.broker, "admin-counted", ["a", "b", "c"])
    queue = MessageQueue("admin-counted", BROKER, 0)

    async def call(admin: AdminClient) -> None:
        assert (await admin.min_offset(queue), await admin.max_offset(queue)) == (0, 3)
        assert await admin.search_offset(queue, 0) == 0
        assert (await admin.topic_status("admin-counted"))[queue].max_offset == 3

    ask(cluster, call)
