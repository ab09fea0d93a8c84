"""Checks of answers that hold at Apache's broker and at RocketFlow's: about batches, units, groups and topics."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from rocketflow.remoting.bodies import SetMessageRequestModeRequestBody, encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.offset import GetMinOffsetRequestHeader
from rocketflow.remoting.headers.pull import QueryConsumeQueueRequestHeader, QueryMessageRequestHeader
from rocketflow_store.spi.messages import Message, batch_body
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig
from tests.support.pull_checks import Ask
from tests.support.request_headers import pull_header, send_header, topic_header

CODE = RequestCode
BATCH_KEY = "0A0B0C"


async def check_batches(ask: Ask) -> None:
    """Check that the answer to a batch names its id if a BatchCQ topic stores it, whose empty queues begin at -1."""
    for topic, queue_type in (("batches", "BatchCQ"), ("singles", "SimpleCQ")):
        header = msgspec.structs.replace(topic_header(topic), attributes=f"+queue.type={queue_type}")
        assert (await ask(CODE.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
    assert [await least(ask, "batches"), await least(ask, "singles"), await least(ask, "unknown")] == ["-1", "0", "0"]
    empty = await ask(CODE.PULL_MESSAGE, pull_header("batches", queue_id=1))
    assert (empty.code, empty.fields["minOffset"]) == (ResponseCode.PULL_NOT_FOUND, "-1")
    for topic, key, expected in (
        ("batches", BATCH_KEY, BATCH_KEY),
        ("batches", "", None),
        ("singles", BATCH_KEY, None),
    ):
        properties = f"UNIQ_KEY\x01{key}\x02" if key else ""
        body = batch_body([Message(topic, b"%d" % number) for number in range(3)])
        sent = await ask(CODE.SEND_MESSAGE, send_header(topic, properties=properties, batch=True), body)
        assert (sent.code, sent.fields.get("batchUniqId")) == (ResponseCode.SUCCESS, expected), (topic, key)
        assert sent.fields.get("transactionId") == (key or None)
    single = await ask(CODE.SEND_MESSAGE, send_header("batches", properties=f"UNIQ_KEY\x01{BATCH_KEY}\x02"), b"6")
    assert (single.code, "batchUniqId" in single.fields) == (ResponseCode.SUCCESS, False)
    assert [await least(ask, "batches"), await least(ask, "batches", 1)] == ["0", "-1"]


async def least(ask: Ask, topic: str, queue_id: int = 0) -> str:
    """Return where a queue begins."""
    return (await ask(CODE.GET_MIN_OFFSET, GetMinOffsetRequestHeader(topic=topic, queue_id=queue_id))).fields["offset"]


async def units(ask: Ask, topic: str, index: int, count: int, queue_id: int = 0) -> Command:
    """Return the answer with units of a queue."""
    header = QueryConsumeQueueRequestHeader(topic=topic, queue_id=queue_id, index=index, count=count)
    return await ask(CODE.QUERY_CONSUME_QUEUE, header)


async def all_units(ask: Ask, topic: str, count: int) -> list[dict[str, Any]]:
    """Return the units of queue 0, which get there some time after their messages."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            body = (await units(ask, topic, 0, 100)).body
            found = loads(body)["queueData"] if body else []
    return found


async def check_units(ask: Ask) -> None:
    """Check that a range of units is exactly what was asked for; queue 0 of topic `t` has three messages or more."""
    for topic, queue_id in (("nowhere", 0), ("t", 99), ("t", -1)):
        refused = await units(ask, topic, 0, 1, queue_id)
        assert (refused.code, refused.remark) == (ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    every = (await all_units(ask, "t", 3))[:3]
    assert [one["physicOffset"] for one in every] == sorted({one["physicOffset"] for one in every})
    for index, count, expected in ((0, 0, []), (0, -1, []), (0, 1, every[:1]), (1, 2, every[1:])):
        assert loads((await units(ask, "t", index, count)).body)["queueData"] == expected, (index, count)
    for index in (-1, 1_000):
        beside = await units(ask, "t", index, 5)
        assert (beside.code, loads(beside.body)["queueData"] if beside.body else []) == (ResponseCode.SUCCESS, [])


async def check_batch_units(ask: Ask) -> None:
    """Check that a BatchCQ topic has a unit for each batch, found by the offset of any of its messages."""
    header = msgspec.structs.replace(topic_header("united"), attributes="+queue.type=BatchCQ")
    assert (await ask(CODE.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
    for number in range(3):
        key = f"UNIQ_KEY\x01{number}\x02"
        body = batch_body([Message("united", b"1"), Message("united", b"2")])
        sent = await ask(CODE.SEND_MESSAGE, send_header("united", properties=key, batch=True), body)
        assert (sent.code, sent.fields["queueOffset"]) == (ResponseCode.SUCCESS, str(2 * number))
    every = await all_units(ask, "united", 3)
    for index, count, expected in ((1, 1, every[:1]), (1, 2, every[:2]), (3, 3, every[1:]), (5, 9, every[2:])):
        assert loads((await units(ask, "united", index, count)).body)["queueData"] == expected, (index, count)


async def check_query_of_none(ask: Ask) -> None:
    """Check that a query by key for no messages finds none."""
    sent = await ask(CODE.SEND_MESSAGE, send_header("t", properties="KEYS\x01of-none\x02"), b"keyed")
    assert sent.code == ResponseCode.SUCCESS
    found = {1: -1}
    for count in (0, *(1,) * 1_000):  # the key gets into the index some time after its message
        if found[1] == ResponseCode.SUCCESS:
            break
        header = QueryMessageRequestHeader(
            topic="t", key="of-none", max_num=count, begin_timestamp=0, end_timestamp=1 << 62
        )
        found[count] = (await ask(CODE.QUERY_MESSAGE, header)).code
    assert found == {0: ResponseCode.QUERY_NOT_FOUND, 1: ResponseCode.SUCCESS}


async def check_groups(ask: Ask) -> None:
    """Check the codes for names that no group may have, and that a new group may be set to pull."""
    for name in ("a b", "a.b", "", "g" * 121):
        wanted = SubscriptionGroupConfig(group_name=name)
        one = await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(wanted))
        several = encode_body({"groupConfigList": [wanted]})
        many = await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, several)
        assert (one.code, many.code) == (ResponseCode.INVALID_PARAMETER,) * 2, name
    for topic, group, expected in (
        ("t", "never-seen", ResponseCode.SUCCESS),
        ("t", "a b", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ("nowhere", "never-seen", ResponseCode.TOPIC_NOT_EXIST),
    ):
        body = encode_body(SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode="PULL"))
        found = await ask(CODE.SET_MESSAGE_REQUEST_MODE, None, body)
        assert found.code == expected, (topic, group, found.remark)


async def check_message_types(ask: Ask) -> None:
    """Check that the refusal of a message type names all, and MIXED is refused as one that is not allowed."""
    for value, code, why in (
        ("mixed", ResponseCode.SYSTEM_ERROR, "MIXED"),
        ("MIXED", ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported."),
    ):
        header = msgspec.structs.replace(topic_header("typed"), attributes=f"+message.type={value}")
        refused = await ask(CODE.UPDATE_AND_CREATE_TOPIC, header)
        assert (refused.code, why in (refused.remark or "")) == (code, True), refused.remark


async def check_blank_tags(ask: Ask) -> None:
    """Check that an expression of blanks matches no message, and an empty one all."""
    found = {}
    for expression in (" ", "  || ", "", "*"):
        found[expression] = (await ask(CODE.PULL_MESSAGE, pull_header("t", subscription=expression))).code
    none, every = ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.SUCCESS
    assert found == {" ": none, "  || ": none, "": every, "*": every}


CHECKS = (
    check_blank_tags,
    check_batches,
    check_units,
    check_batch_units,
    check_query_of_none,
    check_groups,
    check_message_types,
)
"""Each expects topic `t` with three messages or more in queue 0."""
