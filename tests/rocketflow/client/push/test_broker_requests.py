"""Requests of brokers and operators to a push consumer: reports, resets of offsets, one message at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from rocketflow.aio.loop import run
from rocketflow.client.admin.figures import decode_object, queue_table
from rocketflow.client.consume.membership import CLUSTERING, PUSH, GroupMembership
from rocketflow.client.errors import ClientError
from rocketflow.client.push import ConsumeContext, PushOptions, QueueLimits
from rocketflow.client.push.broker_requests import BrokerRequests
from rocketflow.client.push.figures import ConsumeFigures
from rocketflow.client.push.held_queue import HeldQueue
from rocketflow.remoting.bodies import MessageQueue, encode_body, queue_map
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, encode_command, request
from rocketflow.remoting.headers.client import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerStatusRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
)
from rocketflow.remoting.headers.offset import ResetOffsetRequestHeader
from rocketflow_store.spi.messages import ReceivedMessage
from tests.support.between import Between, between
from tests.support.pushing import Noted, committed, consuming, make_topic, operator, options, put, until
from tests.support.servers import RunningServer


@pytest.fixture
def proxied(servers: tuple[RunningServer, RunningServer]) -> Iterator[tuple[str, Between]]:
    """Provide the address of a NameServer whose routes name a proxy of the broker, and that proxy."""
    with between(servers[0].port, servers[1].port) as (names_proxy, broker_proxy):
        yield names_proxy.address, broker_proxy


def test_operators_see_subscriptions_queues_and_rates(names: str) -> None:
    async def consume() -> None:
        await make_topic(names, "reported", 2)
        await put(names, "reported", map(str, range(10)), queues=2)
        noted = Noted()
        async with consuming(options(names, "g-reported"), noted, "reported") as consumer, operator(names) as client:
            await until(lambda: len(noted.messages) == 10)
            (member,) = (await client.consumer_connection("g-reported")).connection_set
            assert (member.client_id, member.language) == (consumer.client_id, "PYTHON")
            info = await client.running_info("g-reported", consumer.client_id)
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
        assert info["properties"]["PROP_NAMESERVER_ADDR"] == names + ";"
        assert int(info["properties"]["PROP_CONSUMER_START_TIMESTAMP"]) > 1_700_000_000_000
        assert {one["topic"] for one in info["subscriptionSet"]} >= {"reported", "%RETRY%g-reported"}
        queues = queue_table(info, "mqTable", dict)
        held = [queues[MessageQueue("reported", "broker-a", one)] for one in range(2)]
        assert [(one["commitOffset"], one["cachedMsgCount"], one["droped"]) for one in held] == [(5, 0, False)] * 2
        assert all(one["lastPullTimestamp"] > 1_700_000_000_000 for one in held)
        assert set(info["statusTable"]["reported"]) == {
            *("pullRT", "pullTPS", "consumeRT", "consumeOKTPS", "consumeFailedTPS", "consumeFailedMsgs")
        }

    run(consume())


def test_operator_lets_a_member_consume_one_message_again(names: str) -> None:
    async def fail(message: ReceivedMessage, _context: ConsumeContext) -> None:
        if again and message.body == b"1":
            raise ValueError("not this one")

    again: list[str] = []

    async def consume() -> None:
        await make_topic(names, "direct", 1)
        await put(names, "direct", ["0", "1"], queues=1)
        noted = Noted(fail)
        async with consuming(options(names, "g-direct"), noted, "direct") as consumer, operator(names) as client:
            await until(lambda: len(noted.messages) == 2)
            again.append("from now on")
            (address,) = await client.masters("direct")
            results = []
            for message in list(noted.messages):
                header = ConsumeMessageDirectlyResultRequestHeader(
                    consumer_group="g-direct", client_id=consumer.client_id, msg_id=message.offset_message_id
                )
                reply = await client.cluster.request(address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
                results.append(decode_object(reply.body))
        assert noted.counts() == {"0": 2, "1": 2}
        assert [one["consumeResult"] for one in results] == ["CR_SUCCESS", "CR_THROW_EXCEPTION"]
        assert results[1]["remark"] == "ValueError: not this one"
        assert results[0]["order"] is False
        assert list((await committed(names, "g-direct", "direct")).values()) == [2]

    run(consume())


@pytest.mark.parametrize("orderly", [False, True])
def test_offsets_that_an_operator_resets_are_read_again(names: str, orderly: bool) -> None:
    async def consume() -> None:
        topic, group = f"reset-{orderly}", f"g-reset-{orderly}"
        await make_topic(names, topic)
        await put(names, topic, map(str, range(20)))
        noted = Noted()
        async with consuming(options(names, group, orderly=orderly), noted, topic), operator(names) as client:
            await until(lambda: len(noted.messages) == 20)
            await client.reset_offset_by_time(group, topic, 0)
            await put(names, topic, ["ends the pulls under way"] * 4)
            await until(
                lambda: len(set(noted.bodies)) == 21 and min(noted.counts()[str(one)] for one in range(20)) == 2
            )
        assert Counter(noted.bodies)["0"] == 2
        assert sum((await committed(names, group, topic)).values()) == 24

    run(consume())


def pushed(code: int, header: ResetOffsetRequestHeader, body: bytes) -> bytes:
    """Return the frame of a request that a broker of version 4 sends to its clients."""
    made: Command = request(code, header, body=body, opaque=7_000_000, one_way=True)
    return encode_command(made)


def test_offsets_that_a_broker_of_version_4_pushes_are_read_again(proxied: tuple[str, Between]) -> None:
    names, broker = proxied

    async def consume() -> None:
        await make_topic(names, "pushed", 2)
        await put(names, "pushed", map(str, range(20)), queues=2)
        noted = Noted()
        async with consuming(options(names, "g-pushed"), noted, "pushed") as consumer:
            await until(lambda: len(noted.messages) == 20)
            offsets = {MessageQueue("pushed", "broker-a", 0): 3, MessageQueue("pushed", "broker-a", 7): 1}
            header = ResetOffsetRequestHeader(group="g-pushed", topic="pushed", timestamp=0, is_force=True)
            body = encode_body({"offsetTable": queue_map(offsets)})
            broker.send_to_clients(pushed(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, header, body))
            await until(lambda: len(noted.messages) == 27)
            assert noted.bodies[20:] == ["6", "8", "10", "12", "14", "16", "18"]
            assert len([one for one in consumer.queues() if one.topic == "pushed"]) == 2
        assert (await committed(names, "g-pushed", "pushed")) == {
            MessageQueue("pushed", "broker-a", 0): 10,
            MessageQueue("pushed", "broker-a", 1): 10,
        }

    run(consume())


class OneQueue:
    """A holder of one queue, of which 10 is the next offset."""

    def __init__(self) -> None:
        self.queue = MessageQueue("t", "b", 3)

    def queues(self) -> dict[MessageQueue, HeldQueue]:
        return {self.queue: HeldQueue(self.queue, 10, QueueLimits())}

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        raise AssertionError(offsets)


def test_member_reports_offsets_of_its_own_group_only() -> None:
    async def ask() -> None:
        made = PushOptions(name_servers="127.0.0.1:1", group="g")
        membership = GroupMembership("g", consume_type=PUSH, message_model=CLUSTERING, consume_from_where="")
        requests = BrokerRequests(made, Noted(), membership, ConsumeFigures())
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        handler = requests.handlers()[code]
        header = GetConsumerStatusRequestHeader(topic="t", group="g")
        with pytest.raises(ClientError, match="'g' is not started"):
            await handler(request(code, header), "broker")
        requests.start(OneQueue(), lambda: None)
        reply = await handler(request(code, header, opaque=7), "broker")
        assert reply is not None
        assert reply.opaque == 7
        assert queue_table(decode_object(reply.body), "messageQueueTable", int) == {OneQueue().queue: 10}
        other = GetConsumerStatusRequestHeader(topic="t", group="other")
        with pytest.raises(ClientError, match="'other' is not started"):
            await handler(request(code, other), "broker")

    run(ask())


def test_notice_of_changed_members_wakes_the_rebalance_of_its_group() -> None:
    async def notify() -> None:
        woken: list[bool] = []
        made = PushOptions(name_servers="127.0.0.1:1", group="g")
        membership = GroupMembership("g", consume_type=PUSH, message_model=CLUSTERING, consume_from_where="")
        requests = BrokerRequests(made, Noted(), membership, ConsumeFigures())
        requests.start(OneQueue(), lambda: woken.append(True))
        code = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        for group in ("other", "g"):
            header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
            assert await requests.handlers()[code](request(code, header, one_way=True), "broker") is None
        assert woken == [True]

    run(notify())
