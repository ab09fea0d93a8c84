"""The operator's client against a NameServer and a broker of RocketFlow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

from rocketflow.aio.loop import run
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.admin.group_requests import GroupRequests
from rocketflow.client.cluster import Cluster
from rocketflow.remoting.bodies import MessageQueue, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.headers.offset import ResetOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketflow_store.spi.table_rows import TopicConfig
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


class ClientSideResets:
    """A broker of version 4 with a client that goes on where request 222 says, and commits once in between."""

    def __init__(self) -> None:
        self.committed = {0: 4, 1: 10}
        self.position = dict(self.committed)
        self._commits_in_between = True

    async def request(self, address: str, code: int, header: UpdateConsumerOffsetRequestHeader) -> None:
        self.committed[header.queue_id] = header.commit_offset

    async def ask(self, address: str, code: int, header: ResetOffsetRequestHeader) -> Command:
        assert code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
        if self._commits_in_between:
            self._commits_in_between, self.committed = False, dict(self.position)
        target = 10 if header.timestamp == -1 else 0
        for one, offset in self.committed.items():
            self.position[one] = target if header.is_force else min(target, offset)
        table = {MessageQueue("t", "b", one): offset for one, offset in self.position.items()}
        return Command(0, body=encode_body({"offsetTable": queue_map(table)}))


def test_reset_of_one_queue_leaves_the_others_where_the_clients_reset_offsets() -> None:
    broker = ClientSideResets()
    requests = GroupRequests.__new__(GroupRequests)
    requests.cluster = cast("Cluster", broker)
    run(requests.reset_queue_offset("address", "g", "t", 1, 6))
    assert broker.position == broker.committed == {0: 4, 1: 6}
