"""Requests and replies through RocketFlow's broker, and replies that are damaged or late."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from rocketflow.aio.loop import run
from rocketflow.client import Message, Producer, reply_to, sync
from rocketflow.client.produce.errors import BadMessageError, NoReplyError
from rocketflow.client.produce.replies import Replies, as_request
from rocketflow.remoting.codes import RequestCode
from rocketflow.remoting.command import Command, request
from rocketflow.remoting.headers.send import ReplyMessageRequestHeader
from rocketflow_store.spi.messages import Compression, ReceivedMessage, compress_body
from tests.support.client_cluster import ClientCluster


async def answer_all(cluster: ClientCluster, topic: str, count: int) -> None:
    """Answer messages of a topic as a consumer does: the body reversed."""
    replied: set[str] = set()
    async with Producer(cluster.options(group="repliers")) as producer:
        while len(replied) < count:
            for one in await cluster.stored(topic):
                if one.message_id not in replied:
                    replied.add(one.message_id)
                    await producer.send(reply_to(one, one.body[::-1]))
            await asyncio.sleep(0.01)


def test_replies_reach_their_requests(cluster: ClientCluster) -> None:
    large = os.urandom(3_000) + bytes(3_000)

    async def main() -> None:
        await cluster.create_topic("questions")
        async with Producer(cluster.options(group="askers")) as producer:
            answers = asyncio.ensure_future(answer_all(cluster, "questions", 6))
            bodies = [*(b"ab%d" % number for number in range(5)), large]
            asked = [producer.request(Message("questions", one, keys=["k"]), timeout_s=60) for one in bodies]
            found = await asyncio.gather(*asked)
            assert [one.body for one in found] == [one[::-1] for one in bodies]
            await answers

    run(main())


def test_a_sync_request_gets_its_reply(cluster: ClientCluster) -> None:
    async def created() -> None:
        await cluster.create_topic("plain-questions")

    run(created())
    with sync.Producer(cluster.options(group="plain-askers")) as producer:

        async def both() -> ReceivedMessage:
            answers = asyncio.ensure_future(answer_all(cluster, "plain-questions", 1))
            found = await asyncio.to_thread(producer.request, Message("plain-questions", b"xyz"), timeout_s=60)
            await answers
            return found

        assert run(both()).body == b"zyx"


def test_a_request_without_a_reply_says_so(cluster: ClientCluster) -> None:
    async def main() -> None:
        await cluster.create_topic("silence")
        async with Producer(cluster.options()) as producer:
            with pytest.raises(
                NoReplyError, match=r"'silence': no consumer has replied to message \w{32} within 0.5 s"
            ):
                await producer.request(Message("silence", b"b"), timeout_s=0.5)

    run(main())
    (message,) = run(cluster.stored("silence"))
    assert message.properties["TTL"] == "500"


def pushed(properties: str, body: bytes, sys_flag: int = 0) -> Command:
    header = ReplyMessageRequestHeader(
        producer_group="g",
        topic="t",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=sys_flag,
        born_timestamp=1,
        flag=0,
        properties=properties,
        born_host="127.0.0.1:1",
        store_host="127.0.0.1:2",
        store_timestamp=2,
    )
    return request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, body=body, opaque=7)


def test_a_compressed_reply_is_decompressed_and_a_late_one_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        replies = Replies()
        _, correlation_id = as_request(Message("t", b"b"), "client", 1.0)
        waiting = replies.expect(correlation_id)
        properties = f"CORRELATION_ID\x01{correlation_id}\x02"
        data = compress_body(b"body" * 100, Compression.ZSTD)
        for _ in range(2):
            reply = await replies.handle(pushed(properties, data, Compression.ZSTD.sys_flag), "127.0.0.1:1")
            assert (reply.code, reply.opaque) == (0, 7)
        assert (await waiting).body == b"body" * 100
        replies.forget(correlation_id)
        await replies.handle(pushed("a\x01b\x02", b""), "127.0.0.1:1")

    with caplog.at_level(logging.WARNING, "rocketflow.client"):
        run(main())
    assert caplog.text.count("a reply came too late") == 2


def test_a_message_that_wants_no_reply_gets_none() -> None:
    message = ReceivedMessage("t", 0, 0, b"b", {"CLUSTER": "c", "UNIQ_KEY": "U"})
    with pytest.raises(BadMessageError, match="message U wants no reply: it lacks CORRELATION_ID, REPLY_TO_CLIENT"):
        reply_to(message, b"r")
