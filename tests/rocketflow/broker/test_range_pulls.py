"""Pulls of ranges (request 30009), asked of a broker."""

from __future__ import annotations

import socket
from pathlib import Path

from rocketflow.aio.loop import run
from rocketflow.process.server_settings import ADMIN_KEYS
from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.admin import UpdateGroupForbiddenRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader, PullRangeResponseHeader
from rocketflow_store.spi.messages import decode_records
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.rocketflow.broker.test_operator_requests import Ask, with_broker
from tests.support.client_cluster import BROKER, ClientCluster
from tests.support.request_headers import GROUP, pull_header, send_header, topic_header

CODE = RequestCode.ROCKETFLOW_PULL_RANGE


def pull(
    topic: str, opaque: int, span: tuple[int, int] = (0, 10), *, queue_id: int = 0, size: int = 1 << 20
) -> Command:
    header = PullRangeRequestHeader(
        consumer_group="TOOLS_CONSUMER", topic=topic, queue_id=queue_id, start=span[0], end=span[1], max_bytes=size
    )
    return request(CODE, header, opaque=opaque)


def answers(cluster: ClientCluster, *requests: Command) -> dict[int, Command]:
    """Send requests on one connection; return what came, by `opaque`, until all that are not one-way were answered."""
    receiver, found = FrameReceiver(), {}
    wanted = {one.opaque for one in requests if not one.is_one_way}
    with socket.create_connection(("127.0.0.1", cluster.broker.port), timeout=30) as sock:
        sock.sendall(b"".join(encode_command(one) for one in requests))
        while not wanted <= found.keys():
            piece = sock.recv(1 << 16)
            assert piece
            found |= {one.opaque: one for one in map(decode_command, receiver.feed(piece))}
    return found


def topic_of_three(cluster: ClientCluster) -> str:
    async def made() -> str:
        topic = await cluster.new_topic(1)
        await cluster.send(topic, ["a", "b", "c"])
        return topic

    return run(made())


def test_a_range_ends_at_its_size_and_at_the_end_of_the_queue(cluster: ClientCluster) -> None:
    topic = topic_of_three(cluster)
    spans = {1: (0, 10), 2: (1, 2), 3: (3, 10)}
    found = answers(cluster, *(pull(topic, *one) for one in spans.items()), pull(topic, 4, size=1))
    bodies = {opaque: [one.body for one in decode_records(reply.body, BROKER)] for opaque, reply in found.items()}
    assert bodies == {1: [b"a", b"b", b"c"], 2: [b"b"], 3: [], 4: [b"a"]}
    headers = [found[opaque].header(PullRangeResponseHeader) for opaque in sorted(found)]
    assert [(one.next_offset, one.min_offset, one.max_offset) for one in headers] == [
        (3, 0, 3),
        (2, 0, 3),
        (3, 0, 3),
        (1, 0, 3),
    ]


def test_a_one_way_pull_has_no_answer(cluster: ClientCluster) -> None:
    topic = topic_of_three(cluster)
    header = pull(topic, 0).header(PullRangeRequestHeader)
    silent = request(CODE, header, opaque=1, one_way=True)
    others = [pull(topic, number) for number in range(2, 50)]  # an answer to the first would come among these
    assert answers(cluster, silent, *others).keys() == {one.opaque for one in others}


def test_unknown_topics_and_queues_are_refused(cluster: ClientCluster) -> None:
    topic = topic_of_three(cluster)
    found = answers(cluster, pull(topic, 1, queue_id=1), pull(topic, 2, queue_id=-1), pull("no-such-topic", 3))
    assert {opaque: reply.code for opaque, reply in found.items()} == {
        1: ResponseCode.INVALID_PARAMETER,
        2: ResponseCode.INVALID_PARAMETER,
        3: ResponseCode.TOPIC_NOT_EXIST,
    }
    assert (found[1].remark or "").startswith(f"queueId[1] is illegal, topic:[{topic}] topicConfig.readQueueNums:[1]")


def test_a_range_is_refused_as_a_pull_is(tmp_path: Path) -> None:
    """Broker, group, topic and queue are checked by the same rules, and so are commits as sends."""

    async def check(ask: Ask) -> None:
        async def refusal(topic: str = "t", queue_id: int = 0, group: str = GROUP) -> tuple[int, str | None]:
            header = PullRangeRequestHeader(
                consumer_group=group, topic=topic, queue_id=queue_id, start=0, end=10, max_bytes=1 << 20
            )
            ranged = await ask(CODE, header)
            pulled = await ask(RequestCode.PULL_MESSAGE, pull_header(topic, queue_id, consumer_group=group))
            assert (ranged.code, ranged.body) == (pulled.code, pulled.body)
            if ranged.code:
                assert ranged.remark == pulled.remark
            return ranged.code, ranged.remark

        async def done(code: int, header: Header | None = None, body: bytes = b"") -> None:
            found = await ask(code, header, body)
            assert found.code == ResponseCode.SUCCESS, (code, found.remark)

        async def commit() -> Command:
            return await ask(RequestCode.ROCKETFLOW_COMMIT_PROGRESS, None, b"{}")

        config = SubscriptionGroupConfig(group_name=GROUP)
        await done(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))
        assert await refusal() == (ResponseCode.SUCCESS, None)
        assert (await refusal("no-such-topic"))[0] == ResponseCode.TOPIC_NOT_EXIST
        assert (await refusal(queue_id=4))[0] == ResponseCode.INVALID_PARAMETER
        assert (await refusal(group="no-such-group"))[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        for enabled in (False, True):
            config = SubscriptionGroupConfig(group_name=GROUP, consume_enable=enabled)
            await done(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))
            assert await refusal() == (
                (ResponseCode.SUCCESS, None)
                if enabled
                else (ResponseCode.NO_PERMISSION, f"subscription group no permission, {GROUP}")
            )
        for readable in (False, True):
            header = UpdateGroupForbiddenRequestHeader(group=GROUP, topic="t", readable=readable)
            await done(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, header)
            assert (await refusal())[0] == (ResponseCode.SUCCESS if readable else ResponseCode.NO_PERMISSION)
        for perm in (2, 6):
            await done(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("t", perm=perm))
            assert (await refusal())[0] == (ResponseCode.SUCCESS if perm & 4 else ResponseCode.NO_PERMISSION)
        for perm in (2, 4):
            await done(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=%d" % perm)
            assert (await refusal())[0] == (ResponseCode.SUCCESS if perm & 4 else ResponseCode.NO_PERMISSION)
        sent, committed = await ask(RequestCode.SEND_MESSAGE, send_header("t"), b"x"), await commit()
        assert (committed.code, committed.remark) == (sent.code, sent.remark)
        assert committed.code == ResponseCode.NO_PERMISSION
        await done(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=6")
        assert (await commit()).code != ResponseCode.NO_PERMISSION

    settings = {"autoCreateSubscriptionGroup": "false", ADMIN_KEYS: "brokerPermission"}
    with_broker(tmp_path, check, **settings)
