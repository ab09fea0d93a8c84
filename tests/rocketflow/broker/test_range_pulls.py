"""Pulls of ranges (request 30009), asked of a broker."""

from __future__ import annotations

import socket

from rocketflow.aio.loop import run
from rocketflow.client.received import decode_records
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, decode_command, encode_command, request
from rocketflow.remoting.frame import FrameReceiver
from rocketflow.remoting.headers.rocketflow import PullRangeRequestHeader, PullRangeResponseHeader
from tests.support.client_cluster import BROKER, ClientCluster

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
    assert found[1].remark == f"topic {topic} has no queue 1"
