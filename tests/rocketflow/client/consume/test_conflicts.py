"""Differences between the subscriptions of a client and those of its group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rocketflow.aio.loop import run
from rocketflow.client.cluster import Cluster
from rocketflow.client.consume.conflicts import SubscriptionCheck, differences
from rocketflow.client.consume.membership import CLUSTERING, PUSH, GroupMembership
from rocketflow.client.consume.subscriptions import subscription
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import HeartbeatData, SubscriptionData, decode_body, encode_body
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, answer, decode_command, encode_command
from rocketflow.remoting.frame import FrameReceiver
from tests.support.scripted_broker import route_of


def one(topic: str, text: str = "*", kind: str = "TAG", version: int = 1) -> dict[str, SubscriptionData]:
    return {topic: SubscriptionData(topic=topic, sub_string=text, expression_type=kind, sub_version=version)}


def test_equal_subscriptions_of_other_versions_do_not_differ() -> None:
    assert differences({**one("a"), **one("b", "x")}, {**one("a", version=9), **one("b", "x")}) == []


def test_retry_topics_that_one_client_alone_reads_do_not_differ() -> None:
    assert differences({**one("a"), **one("%RETRY%g")}, one("a")) == []
    assert differences(one("a"), {**one("a"), **one("%RETRY%g")}) == []


def test_each_topic_that_differs_is_named() -> None:
    found = differences(
        {**one("a"), **one("c", "x"), **one("d", "x > 1", "SQL92"), **one("e")},
        {**one("b"), **one("c", "y"), **one("d", "x > 1"), **one("e")},
    )
    assert found == [
        "this client reads topic a, others do not: its messages are not delivered",
        "other clients read topic b, this one does not",
        "topic c: this client subscribes to 'x' (TAG), another one to 'y' (TAG): messages of either are lost",
        "topic d: this client subscribes to 'x > 1' (SQL92), another one to 'x > 1' (TAG): messages of either are lost",
    ]


class GroupBroker:
    """A NameServer and broker with one group, whose subscription stays unless `takes` and the version is newer."""

    def __init__(self, version: int) -> None:
        self.members = ["ahead"]
        self.kept = SubscriptionData(topic="t", sub_string="old", expression_type="TAG", sub_version=version)
        self.takes = True
        self.address = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver = FrameReceiver()
        while data := await reader.read(65536):
            for frame in receiver.feed(data):
                writer.write(encode_command(self._reply(decode_command(frame))))
        writer.close()

    def _reply(self, command: Command) -> Command:
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return answer(command, body=encode_body(route_of({"a": self.address})))
        if command.code == RequestCode.HEART_BEAT:
            data = decode_body(command.body, HeartbeatData)
            if data.client_id not in self.members:
                self.members.append(data.client_id)
            (sent,) = data.consumer_data_set[0].subscription_data_set
            if self.takes and sent.sub_version > self.kept.sub_version:
                self.kept = sent
            return answer(command)
        assert command.code == RequestCode.GET_CONSUMER_CONNECTION_LIST
        members = [{"clientId": one} for one in self.members]
        return answer(command, body=encode_body({"connectionSet": members, "subscriptionTable": {"t": self.kept}}))


@asynccontextmanager
async def checked(broker: GroupBroker) -> AsyncIterator[SubscriptionCheck]:
    """Yield the check of a client that reads `new`, of which the broker has a heartbeat."""
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    membership = GroupMembership("g", consume_type=PUSH, message_model=CLUSTERING, consume_from_where="")
    membership.subscribe(subscription("t", "new", version=1000))
    cluster = Cluster(ClientOptions(name_servers=broker.address), membership)
    try:
        await cluster.route("t")
        await cluster.send_heartbeats()
        yield SubscriptionCheck(cluster, membership)
    finally:
        await cluster.close()
        server.close()


def test_subscription_is_renewed_above_that_of_a_client_which_has_left() -> None:
    async def compare() -> None:
        ahead = 9_000_000_000_000
        broker = GroupBroker(ahead)
        async with checked(broker) as check:
            await check.compare()
            assert len(check.conflicts) == 1
            assert broker.kept.sub_string == "old"
            broker.members.remove("ahead")
            await check.compare()
            assert check.conflicts == []
            assert (broker.kept.sub_string, broker.kept.sub_version) == ("new", ahead + 1)

    run(compare())


def test_departure_of_one_of_several_clients_is_a_reason_to_renew() -> None:
    async def compare() -> None:
        broker = GroupBroker(9_000_000_000_000)
        broker.members.append("stays")
        async with checked(broker) as check:
            await check.compare()
            await check.compare()
            assert len(check.conflicts) == 1
            broker.members.remove("ahead")
            await check.compare()
            assert check.conflicts == []
            assert broker.kept.sub_string == "new"

    run(compare())


def test_conflict_stays_until_the_broker_has_the_renewed_subscription() -> None:
    async def compare() -> None:
        broker = GroupBroker(9_000_000_000_000)
        broker.members.clear()
        broker.takes = False
        async with checked(broker) as check:
            await check.compare()
            assert len(check.conflicts) == 1
            broker.takes = True
            await check.compare()
            assert check.conflicts == []

    run(compare())
