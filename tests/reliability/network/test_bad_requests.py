"""Row N10 and section 6: requests that a client should not send are answered by their codes, and change nothing."""

from __future__ import annotations

import struct
import time
from collections.abc import Awaitable, Callable

import pytest

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.remoting import bodies
from rocketflow.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    MessageQueueBody,
    ProducerData,
    SubscriptionData,
    decode_body,
    encode_body,
)
from rocketflow.remoting.codes import ResponseCode
from rocketflow.remoting.headers import admin, client, offset, pull, send
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.recall_handle import RecallHandle
from tests.reliability.network.wire import CODE, asked, is_served
from tests.support.request_headers import GROUP, pull_header, send_header
from tests.support.request_headers import topic_header as topic
from tests.support.results import Tally
from tests.support.servers import RunningServer, no_traceback

pytestmark = pytest.mark.slow

EVIL_NAMES = [
    *("..", ".", "../x", "/etc/passwd", "a/b", "a\\b", "a\0b", "a b", "a\nb", "a.b", "é", "\u202e", "%2e%2e/x!"),
    *("x" * 128, "x" * 70_000, "", " ", "a:b", "a@b", "*", "?", "~", "$(id)", "`id`", ";", "'", '"', "<a>", "{}"),
]
REFUSED = {
    ResponseCode.SYSTEM_ERROR,
    ResponseCode.NO_PERMISSION,
    ResponseCode.TOPIC_NOT_EXIST,
    ResponseCode.INVALID_PARAMETER,
    ResponseCode.MESSAGE_ILLEGAL,
    ResponseCode.QUERY_NOT_FOUND,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
}


def with_broker(broker: RunningServer, check: Callable[[Channel], Awaitable[None]]) -> None:
    """Run a check with a connection to the broker; then a good client is served, and the log has no traceback."""

    async def main() -> None:
        peers = Peers()
        channel = await peers.channel(broker.address)
        await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic("bad"))
        await check(channel)
        await is_served(await peers.channel(broker.address), 1)
        await peers.close()

    run(main())
    no_traceback(broker)


def named(name: str) -> dict[int, Header]:
    """Return each request that names a topic or a group, with this name."""
    back = send.ConsumerSendMsgBackRequestHeader(offset=0, group=name, delay_level=1, origin_topic=name)
    query = pull.QueryMessageRequestHeader(topic=name, key="k", max_num=1, begin_timestamp=0, end_timestamp=2**62)
    return {
        CODE.SEND_MESSAGE: send_header(name),
        CODE.PULL_MESSAGE: pull_header(name),
        CODE.UPDATE_AND_CREATE_TOPIC: topic(name),
        CODE.DELETE_TOPIC_IN_BROKER: admin.DeleteTopicRequestHeader(topic=name),
        CODE.GET_TOPIC_CONFIG: admin.GetTopicConfigRequestHeader(topic=name),
        CODE.GET_TOPIC_STATS_INFO: admin.GetTopicStatsInfoRequestHeader(topic=name),
        CODE.CONSUMER_SEND_MSG_BACK: back,
        CODE.QUERY_MESSAGE: query,
        CODE.UPDATE_CONSUMER_OFFSET: offset.UpdateConsumerOffsetRequestHeader(
            consumer_group=name, topic=name, queue_id=0, commit_offset=0
        ),
        CODE.GET_CONSUMER_LIST_BY_GROUP: client.GetConsumerListByGroupRequestHeader(consumer_group=name),
    }


@pytest.mark.parametrize("prefix", ["", "%RETRY%"])
def test_names_that_are_not_allowed_are_refused_in_every_request(
    prefix: str, broker: RunningServer, tally: Callable[..., Tally]
) -> None:
    counts = tally("N10", prefix or "plain")

    async def check(channel: Channel) -> None:
        for name in EVIL_NAMES:
            if not name and prefix:
                continue
            evil = prefix + name + ("x" * 255 if prefix and name.isalnum() else "")
            for code, header in named(evil).items():
                answer = await asked(channel, code, header, b"body")
                missing = code == CODE.DELETE_TOPIC_IN_BROKER and answer.code == ResponseCode.SUCCESS
                assert answer.code in REFUSED or missing, (code, evil[:80], answer.code, answer.remark)
                assert len(answer.remark or "") < 100_000
            data = HeartbeatData(
                client_id=evil,
                producer_data_set=[ProducerData(group_name=evil)],
                consumer_data_set=[ConsumerData(group_name=evil, subscription_data_set=[SubscriptionData(topic=evil)])],
            )
            assert (await asked(channel, CODE.HEART_BEAT, body=encode_body(data))).code == ResponseCode.SUCCESS
            if len(evil) == 128:
                continue  # producer groups may be longer
            of_group = admin.GetProducerConnectionListRequestHeader(producer_group=evil)
            members = await asked(channel, CODE.GET_PRODUCER_CONNECTION_LIST, of_group)
            assert members.code == ResponseCode.SYSTEM_ERROR
            counts.trial(None, evil[:80])

    home = broker.log.parent
    before = {one.name for one in home.iterdir()}
    with_broker(broker, check)
    assert {one.name for one in home.iterdir()} == before
    queues = {one.name for one in (home / "store/consumequeue").iterdir()}
    assert not {one for one in queues if set(one) & set("./\\ \n")}, queues


def test_clients_cannot_send_to_internal_topics_nor_change_them(broker: RunningServer) -> None:
    async def check(channel: Channel) -> None:
        for name in (
            *("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"),
            *("rmq_sys_wheel_timer", "rmq_sys_ROCKETFLOW_COMMIT", "rmq_sys_ROCKETFLOW_QUALITY"),
        ):
            assert (await asked(channel, CODE.SEND_MESSAGE, send_header(name), b"x")).code == ResponseCode.NO_PERMISSION
            made = await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic(name))
            assert made.code == ResponseCode.INVALID_PARAMETER, name
            deleted = await asked(channel, CODE.DELETE_TOPIC_IN_BROKER, admin.DeleteTopicRequestHeader(topic=name))
            assert deleted.code == ResponseCode.INVALID_PARAMETER, name
        for code in (CODE.UPDATE_BROKER_CONFIG,):
            assert (await asked(channel, code, body=b"brokerName=x")).code == ResponseCode.NO_PERMISSION

    with_broker(broker, check)


def test_forged_recalls_are_refused(broker: RunningServer) -> None:
    """Recall a message of another topic or broker, of a time that is over or too far ahead, and by no handle."""
    soon = int(time.time() * 1000) + 60_000
    handles = [
        RecallHandle("bad", "another", soon, "K"),
        RecallHandle("other", "broker-a", soon, "K"),
        RecallHandle("bad", "broker-a", 1, "K"),
        RecallHandle("bad", "broker-a", LONG_MAX, "K"),
        RecallHandle("bad", "broker-a", soon, "K\x01TAGS\x02"),
    ]

    async def check(channel: Channel) -> None:
        async def recall(name: str, text: str, group: str = GROUP) -> int:
            header = send.RecallMessageRequestHeader(topic=name, recall_handle=text, producer_group=group)
            return (await asked(channel, CODE.RECALL_MESSAGE, header)).code

        for text in ("", "x", *(one.encode() for one in handles)):
            assert await recall("bad", text) == ResponseCode.ILLEGAL_OPERATION, text
        good = RecallHandle("bad", "broker-a", soon, "K").encode()
        assert await recall("bad", good, "g\x01TAGS\x02") == ResponseCode.ILLEGAL_OPERATION
        assert await recall("none", good) == ResponseCode.TOPIC_NOT_EXIST
        assert await recall("bad", good) == ResponseCode.SUCCESS

    with_broker(broker, check)


INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def test_forged_queues_and_offsets_are_refused(broker: RunningServer) -> None:
    async def check(channel: Channel) -> None:
        for queue in (4, INT_MAX):
            answer = await asked(channel, CODE.SEND_MESSAGE, send_header("bad", queue), b"x")
            assert answer.code == ResponseCode.INVALID_PARAMETER, queue
        for queue in (-1, -(2**31), 4, INT_MAX):
            answer = await asked(channel, CODE.PULL_MESSAGE, pull_header("bad", queue))
            assert answer.code == ResponseCode.INVALID_PARAMETER, queue
            update = offset.UpdateConsumerOffsetRequestHeader(
                consumer_group=GROUP, topic="bad", queue_id=queue, commit_offset=1
            )
            answer = await asked(channel, CODE.UPDATE_CONSUMER_OFFSET, update)
            assert answer.code == ResponseCode.INVALID_PARAMETER, queue
            for code, header in (
                (CODE.GET_MAX_OFFSET, offset.GetMaxOffsetRequestHeader(topic="bad", queue_id=queue)),
                (CODE.GET_MIN_OFFSET, offset.GetMinOffsetRequestHeader(topic="bad", queue_id=queue)),
                (
                    CODE.SEARCH_OFFSET_BY_TIMESTAMP,
                    offset.SearchOffsetRequestHeader(topic="bad", queue_id=queue, timestamp=LONG_MAX),
                ),
            ):
                answer = await asked(channel, code, header)
                assert answer.code == ResponseCode.SUCCESS or answer.code in REFUSED, (code, queue, answer.remark)
        assert (await asked(channel, CODE.SEND_MESSAGE, send_header("bad"), b"x")).code == ResponseCode.SUCCESS
        for wrong in (-1, -(2**63), 1_000_000, LONG_MAX):
            answer = await asked(channel, CODE.PULL_MESSAGE, pull_header("bad", offset=wrong))
            assert answer.code == ResponseCode.PULL_OFFSET_MOVED, (wrong, answer.code)
            assert 0 <= int(answer.fields["nextBeginOffset"]) <= int(answer.fields["maxOffset"])
            view = await asked(channel, CODE.VIEW_MESSAGE_BY_ID, pull.ViewMessageRequestHeader(offset=wrong))
            assert view.code == ResponseCode.SYSTEM_ERROR, wrong
            back = send.ConsumerSendMsgBackRequestHeader(offset=wrong, group=GROUP, delay_level=INT_MAX)
            answer = await asked(channel, CODE.CONSUMER_SEND_MSG_BACK, back)
            assert answer.code == ResponseCode.SYSTEM_ERROR, (wrong, answer.code)
        update = offset.UpdateConsumerOffsetRequestHeader(
            consumer_group=GROUP, topic="bad", queue_id=0, commit_offset=-1
        )
        assert (await asked(channel, CODE.UPDATE_CONSUMER_OFFSET, update)).code == ResponseCode.INVALID_PARAMETER
        answer = await asked(channel, CODE.PULL_MESSAGE, pull_header("bad", max_msg_nums=-5))
        assert answer.code == ResponseCode.SUCCESS
        suspended = pull_header("bad", offset=1_000, sys_flag=6, suspend_timeout_millis=-1)
        assert (await asked(channel, CODE.PULL_MESSAGE, suspended)).code == ResponseCode.PULL_OFFSET_MOVED

    with_broker(broker, check)


def test_topics_with_impossible_settings_are_refused(broker: RunningServer) -> None:
    async def check(channel: Channel) -> None:
        for queues in (-1, INT_MAX, 70_000):
            answer = await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic("huge", queues))
            assert answer.code == ResponseCode.INVALID_PARAMETER, queues
        for perm in (-1, 8, INT_MAX):
            answer = await asked(channel, CODE.UPDATE_AND_CREATE_TOPIC, topic("huge", 1, perm))
            assert answer.code == ResponseCode.INVALID_PARAMETER, perm
        for queues in (-1, INT_MAX):
            header = send_header("fresh", default_topic_queue_nums=queues)
            answer = await asked(channel, CODE.SEND_MESSAGE, header, b"x")
            assert answer.code in (ResponseCode.SUCCESS, ResponseCode.INVALID_PARAMETER)

    with_broker(broker, check)


def test_bodies_and_properties_that_are_wrong_are_refused_or_kept_as_they_are(broker: RunningServer) -> None:
    entry = struct.pack(">iiiii", 24, 0, 0, 0, 2) + b"ab" + struct.pack(">h", 0)
    batches = {
        "empty": b"",
        "one byte": b"x",
        "size 0": bytes(4) + entry[4:],
        "size -1": b"\xff\xff\xff\xff" + entry[4:],
        "size 2 GiB": b"\x7f\xff\xff\xff" + entry[4:],
        "size too small": struct.pack(">i", 5) + entry[4:],
        "cut": entry[:-3],
        "bytes after it": entry + b"xyz",
        "body of 2 GiB": struct.pack(">iiiii", 24, 0, 0, 0, INT_MAX) + b"ab" + bytes(2),
        "body of -1": struct.pack(">iiiii", 24, 0, 0, 0, -1) + b"ab" + bytes(2),
        "properties of -1": entry[:-2] + b"\xff\xff",
        "properties longer than the batch": entry[:-2] + b"\x7f\xff",
    }

    async def check(channel: Channel) -> None:
        for name, body in batches.items():
            header = send_header("bad", batch=True)
            answer = await asked(channel, CODE.SEND_MESSAGE, header, body)
            assert answer.code in (ResponseCode.MESSAGE_ILLEGAL, ResponseCode.SYSTEM_ERROR), (name, answer.code)
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL, (name, answer.remark)
        large = await asked(channel, CODE.SEND_MESSAGE, send_header("bad"), bytes(5 << 20))
        assert large.code == ResponseCode.MESSAGE_ILLEGAL
        long = await asked(channel, CODE.SEND_MESSAGE, send_header("bad", properties="a\x01" + "x" * 40_000), b"x")
        assert long.code == ResponseCode.MESSAGE_ILLEGAL
        for text in ("no separators", "\x01", "\x02", "\x02\x02\x01", "a\x01b\x01c\x02", "KEYS\x01" + " " * 100, "\0"):
            sent = await asked(channel, CODE.SEND_MESSAGE, send_header("props", properties=text), b"props")
            assert sent.code in (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL), (text, sent.code, sent.remark)
            if sent.code == ResponseCode.SUCCESS:
                where = int(sent.fields["queueOffset"])
                found = await asked(channel, CODE.PULL_MESSAGE, pull_header("props", offset=where))
                assert found.code == ResponseCode.SUCCESS, (text, found.remark)
        for text in ("DELAY\x01-5", "DELAY\x0199999999999999999999", "DELAY\x01x", "TIMER_DELIVER_MS\x01-1"):
            sent = await asked(channel, CODE.SEND_MESSAGE, send_header("bad", properties=text + "\x02"), b"x")
            assert sent.code in (ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL, 1), (text, sent.code)
        for bad in (b"", b"{", b"[]", b"null", b'{"clientID":1e9}', b"\xff", b"{" * 10_000, b'{"a":' * 10_000):
            for code in (CODE.HEART_BEAT, CODE.LOCK_BATCH_MQ, CODE.UNLOCK_BATCH_MQ, CODE.CHECK_CLIENT_CONFIG):
                answer = await asked(channel, code, body=bad)
                assert answer.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR), (code, bad[:20])
        for wrong in ("a >", "(" * 5_000, "a = 1 OR " * 5_000, "a IN (" + "'b'," * 10_000, "\0", "\\"):
            header = pull_header("bad", subscription=wrong, expression_type="SQL92")
            answer = await asked(channel, CODE.PULL_MESSAGE, header)
            assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED, (wrong[:20], answer.code)
        unknown = pull_header("bad", subscription="*", expression_type="LUA")
        assert (await asked(channel, CODE.PULL_MESSAGE, unknown)).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    with_broker(broker, check)


def test_clients_of_one_id_and_locks_without_end_disturb_no_other_client(broker: RunningServer) -> None:
    group = ConsumerData(group_name="twins", subscription_data_set=[SubscriptionData(topic="bad")])
    heartbeat = encode_body(HeartbeatData(client_id="same", consumer_data_set=[group]))
    members = client.GetConsumerListByGroupRequestHeader(consumer_group="twins")

    async def ids(channel: Channel) -> list[str]:
        answer = await asked(channel, CODE.GET_CONSUMER_LIST_BY_GROUP, members)
        if answer.code != ResponseCode.SUCCESS:
            return []
        return decode_body(answer.body, bodies.GetConsumerListByGroupResponseBody).consumer_id_list

    async def check(channel: Channel) -> None:
        other, third = Peers(), Peers()
        for one in (channel, await other.channel(broker.address), await third.channel(broker.address)):
            assert (await asked(one, CODE.HEART_BEAT, body=heartbeat)).code == ResponseCode.SUCCESS
        assert set(await ids(channel)) == {"same"}
        await other.close()
        leave = client.UnregisterClientRequestHeader(client_id="same", consumer_group="twins")
        await asked(await third.channel(broker.address), CODE.UNREGISTER_CLIENT, leave)
        assert set(await ids(channel)) == {"same"}
        await third.close()
        queues = [MessageQueueBody(topic="bad", broker_name="broker-a", queue_id=one) for one in range(60_000)]
        for name in ("one", "two"):
            wanted = LockBatchRequestBody(client_id="c", consumer_group=name, mq_set=queues)
            answer = await asked(channel, CODE.LOCK_BATCH_MQ, body=encode_body(wanted))
            held = decode_body(answer.body, bodies.LockBatchResponseBody).lock_ok_mq_set
            assert len(held) == (60_000 if name == "one" else 40_000)
        for name in ("one", "two"):
            wanted = LockBatchRequestBody(client_id="c", consumer_group=name, mq_set=queues)
            await asked(channel, CODE.UNLOCK_BATCH_MQ, body=encode_body(wanted))

    with_broker(broker, check)
