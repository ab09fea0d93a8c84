"""Requests that make and change topics and groups (17, 18, 200, 225), asked of a broker in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from rocketflow.remoting.bodies import encode_body
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.admin import GetSubscriptionGroupConfigRequestHeader, GetTopicConfigRequestHeader
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, TopicConfig
from tests.rocketflow.broker.test_operator_requests import Ask, with_broker
from tests.support.request_headers import pull_header, send_header, topic_header

CODE: Final = RequestCode
OK: Final = (int(ResponseCode.SUCCESS), "")


async def put_topic(ask: Ask, topic: str, attributes: str | None = None, **more: Any) -> tuple[int, str]:
    """Make or change a topic with one queue by request 17; return code and remark."""
    header = msgspec.structs.replace(topic_header(topic, 1), attributes=attributes, **more)
    found = await ask(CODE.UPDATE_AND_CREATE_TOPIC, header)
    return found.code, found.remark or ""


async def put_topics(ask: Ask, *topics: TopicConfig) -> tuple[int, str]:
    """Make or change topics by request 18; return code and remark."""
    body = encode_body({"topicConfigList": topics})
    found = await ask(CODE.UPDATE_AND_CREATE_TOPIC_LIST, None, body)
    return found.code, found.remark or ""


async def put_groups(ask: Ask, *groups: SubscriptionGroupConfig) -> tuple[int, str]:
    """Make or change groups by request 225; return code and remark."""
    body = encode_body({"groupConfigList": groups})
    found = await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, body)
    return found.code, found.remark or ""


async def topic(ask: Ask, name: str) -> dict[str, Any] | None:
    """Return the settings of a topic, None if there is none."""
    found = await ask(CODE.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader(topic=name))
    return dict(loads(found.body)) if found.code == ResponseCode.SUCCESS else None


async def attributes_of(ask: Ask, name: str) -> object:
    """Return the attributes of a topic."""
    return (await topic(ask, name) or {}).get("attributes")


async def group(ask: Ask, name: str) -> dict[str, Any] | None:
    """Return the settings of a group, None if there is none."""
    found = await ask(CODE.GET_SUBSCRIPTIONGROUP_CONFIG, GetSubscriptionGroupConfigRequestHeader(group=name))
    return dict(loads(found.body)) if found.code == ResponseCode.SUCCESS else None


def test_a_change_of_a_topic_keeps_the_attributes_that_it_does_not_name(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert await put_topic(ask, "typed", "+message.type=FIFO,+reserve.time=7") == OK
        assert await put_topic(ask, "typed", perm=4) == OK
        found = await topic(ask, "typed") or {}
        assert (found["perm"], found["attributes"]) == (4, {"message.type": "FIFO", "reserve.time": "7"})
        assert await put_topic(ask, "typed", "+reserve.time=8") == OK
        assert await attributes_of(ask, "typed") == {"message.type": "FIFO", "reserve.time": "8"}
        assert await put_topic(ask, "typed", "-message.type") == OK
        assert await attributes_of(ask, "typed") == {"reserve.time": "8"}
        assert await put_topics(ask, TopicConfig(topic_name="typed", attributes={"+message.type": "DELAY"})) == OK
        found = await topic(ask, "typed") or {}
        assert (found["writeQueueNums"], found["attributes"]) == (16, {"reserve.time": "8", "message.type": "DELAY"})
        assert await put_topics(ask, TopicConfig(topic_name="typed", attributes={"-reserve.time": ""})) == OK
        assert await put_topics(ask, TopicConfig(topic_name="typed", perm=2)) == OK
        assert await attributes_of(ask, "typed") == {"message.type": "DELAY"}

    with_broker(tmp_path, check)


def test_attributes_that_are_not_allowed_change_nothing(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert await put_topic(ask, "typed", "+message.type=FIFO") == OK
        before = await topic(ask, "typed")
        for name, changes, code, why in (
            ("typed", "+no.such=1", ResponseCode.SYSTEM_ERROR, "topic typed: attribute no.such is unknown"),
            ("new", "+no.such=1", ResponseCode.SYSTEM_ERROR, "topic new: attribute no.such is unknown"),
            ("new", "-message.type", ResponseCode.SYSTEM_ERROR, "topic new: attribute message.type is not set"),
            ("typed", "-reserve.time", ResponseCode.SYSTEM_ERROR, "topic typed: attribute reserve.time is not set"),
            ("typed", "+queue.type=BatchCQ", ResponseCode.SYSTEM_ERROR, "queue.type is set when the topic is made"),
            ("typed", "+message.type=fifo", ResponseCode.SYSTEM_ERROR, "the value must be one of"),
            ("typed", "+message.type=MIXED", ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported"),
            ("typed", "message.type=DELAY", ResponseCode.SYSTEM_ERROR, "topic typed: attributes: 'message.type=DELAY'"),
        ):
            found = await put_topic(ask, name, changes, perm=2)
            assert (found[0], why in found[1]) == (code, True), (changes, found)
        assert (await topic(ask, "typed"), await topic(ask, "new")) == (before, None)

    with_broker(tmp_path, check)


def test_a_list_of_topics_with_a_bad_one_changes_none(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        good = TopicConfig(topic_name="good", attributes={"+message.type": "FIFO"})
        for bad, code in (
            (TopicConfig(topic_name="bad name"), ResponseCode.INVALID_PARAMETER),
            (TopicConfig(topic_name="bad", attributes={"message.type": "FIFO"}), ResponseCode.SYSTEM_ERROR),
            (TopicConfig(topic_name="bad", attributes={"+message.type": "MIXED"}), ResponseCode.INVALID_PARAMETER),
            (TopicConfig(topic_name="good", attributes={"-reserve.time": ""}), ResponseCode.SYSTEM_ERROR),
        ):
            assert (await put_topics(ask, good, bad))[0] == code
            assert (await topic(ask, "good"), await topic(ask, "bad")) == (None, None)
        more = TopicConfig(topic_name="good", read_queue_nums=3, attributes={"+reserve.time": "7"})
        assert await put_topics(ask, good, more, TopicConfig(topic_name="other")) == OK
        found = await topic(ask, "good") or {}
        assert (found["readQueueNums"], found["attributes"]) == (3, {"message.type": "FIFO", "reserve.time": "7"})
        assert await attributes_of(ask, "other") == {}

    with_broker(tmp_path, check)


def test_the_type_of_queues_stays_when_the_topic_changes(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert await put_topic(ask, "batches", "+queue.type=BatchCQ") == OK
        assert await put_topic(ask, "empty", "+queue.type=BatchCQ") == OK
        sent = await ask(CODE.SEND_MESSAGE, send_header("batches"), b"x")
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        for name in ("batches", "empty"):
            assert await put_topic(ask, name, perm=4) == OK
            found = await topic(ask, name) or {}
            assert (found["perm"], found["attributes"]) == (4, {"queue.type": "BatchCQ"})
            for changes in ("-queue.type", "+queue.type=SimpleCQ", "+queue.type=BatchCQ"):
                code, remark = await put_topic(ask, name, changes)
                assert (code, "queue.type is set when" in remark) == (ResponseCode.SYSTEM_ERROR, True)
        pulled = await ask(CODE.PULL_MESSAGE, pull_header("batches"))
        assert pulled.code == ResponseCode.SUCCESS, pulled.remark

    with_broker(tmp_path, check)


def test_groups_are_made_and_changed_alone_and_together(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000]}}
        first = SubscriptionGroupConfig(group_name="a", retry_max_times=3, group_retry_policy=policy)
        second = SubscriptionGroupConfig(group_name="b", consume_enable=False, broker_id=1)
        assert await put_groups(ask, first, second) == OK
        found = await group(ask, "a") or {}
        assert (found["groupName"], found["retryMaxTimes"], found["groupRetryPolicy"]) == ("a", 3, policy)
        found = await group(ask, "b") or {}
        assert (found["consumeEnable"], found["brokerId"], found["retryMaxTimes"]) == (False, 1, 16)
        # what a request does not say has its default, as in SubscriptionGroupManager.updateSubscriptionGroupConfig
        request = b'{"groupName":"a","retryMaxTimes":5,"later":{"x":[1]}}'
        for body in (request, encode_body(SubscriptionGroupConfig(group_name="a", retry_max_times=5))):
            one = await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
            assert one.code == ResponseCode.SUCCESS, one.remark
            found = await group(ask, "a") or {}
            assert (found["retryMaxTimes"], found["groupRetryPolicy"]) == (5, {"type": "CUSTOMIZED"})
            assert found["later"] == {"x": [1]}  # a member of another version stays
        all_groups = loads((await ask(CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)["subscriptionGroupTable"]
        assert (all_groups["a"], all_groups["b"]) == (found, await group(ask, "b"))

    with_broker(tmp_path, check)


def test_a_list_of_groups_with_a_bad_one_changes_none(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        first, last = (SubscriptionGroupConfig(group_name=one, retry_max_times=3) for one in ("first", "last"))
        signed = SubscriptionGroupConfig(group_name="first", attributes={"+k": "v"})
        unknown, wrong = ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER
        for bad, expected, why in (
            (SubscriptionGroupConfig(group_name="bad name"), wrong, "group='bad name'"),
            (SubscriptionGroupConfig(group_name="bad", attributes={"+k": "v"}), unknown, "group bad: attribute k is"),
            (signed, unknown, "group first: attribute k is unknown"),
        ):
            code, remark = await put_groups(ask, first, bad, last)
            assert (code, why in remark) == (expected, True), remark
            assert [await group(ask, one) for one in ("first", "bad", "last")] == [None] * 3
        refused = await ask(CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(signed))
        assert (refused.code, await group(ask, "first")) == (ResponseCode.SYSTEM_ERROR, None)

    with_broker(tmp_path, check)
