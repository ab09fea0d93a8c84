"""Requests of operators about groups, their members and the upkeep of a broker, asked of a broker in this process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from rocketflow.aio.channel import Channel
from rocketflow.aio.loop import run
from rocketflow.aio.peers import Peers
from rocketflow.broker.service import Broker
from rocketflow.broker.settings import load_broker_settings
from rocketflow.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    MessageQueue,
    SetMessageRequestModeRequestBody,
    SubscriptionData,
    encode_body,
    queue_map,
)
from rocketflow.remoting.codes import RequestCode, ResponseCode
from rocketflow.remoting.command import Command, answer
from rocketflow.remoting.fastjson import loads
from rocketflow.remoting.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    DeleteTopicRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from rocketflow.remoting.headers.client import GetConsumerStatusRequestHeader
from rocketflow.remoting.headers.header import Header
from rocketflow.remoting.headers.offset import (
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryCorrectionOffsetHeader,
    UpdateConsumerOffsetRequestHeader,
)
from tests.rocketflow.broker.test_runtime_figures import options_at
from tests.support.request_headers import GROUP, pull_header, send_header, topic_header

ASK_SECONDS: Final = 60.0
Ask = Callable[..., Awaitable[Command]]
CODE = RequestCode
OLD_S = 1_000_000


Check = Callable[[Ask], Awaitable[None]]


def with_broker(
    home: Path,
    check: Check,
    answers: Mapping[int, Callable[[Channel, Command], None]] | None = None,
    **options: str,
) -> None:
    """Run a check with a broker that has three messages in topic `t`; `answers` are to the broker's own requests."""
    settings, config, given = load_broker_settings(None, {**options_at(home), **options}, {})

    async def main() -> None:
        broker, peers = Broker(settings, config, given), Peers(answers)

        async def ask(code: int, header: Header | None = None, body: bytes = b"") -> Command:
            return await peers.request(settings.broker_address, code, header, body=body, timeout_s=ASK_SECONDS)

        await broker.start()
        try:
            for number in range(3):
                sent = await ask(CODE.SEND_MESSAGE, send_header("t"), b"%d" % number)
                assert sent.code == ResponseCode.SUCCESS, sent.remark
            await check(ask)
        finally:
            await peers.close()
            await broker.stop()

    run(main())


async def read(ask: Ask) -> Command:
    """Pull topic `t` by the usual group."""
    return await ask(CODE.PULL_MESSAGE, pull_header("t"))


def test_a_group_reads_no_topic_that_is_forbidden_to_it(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def forbidden(readable: bool | None, topic: str = "t") -> Any:
            header = UpdateGroupForbiddenRequestHeader(group=GROUP, topic=topic, readable=readable)
            return loads((await ask(CODE.UPDATE_AND_GET_GROUP_FORBIDDEN, header)).body)

        assert (await read(ask)).code == ResponseCode.SUCCESS
        assert await forbidden(False) == {"group": GROUP, "readable": False, "topic": "t"}
        refused = await read(ask)
        assert refused.code == ResponseCode.NO_PERMISSION
        assert "is forbidden for topic[t]" in (refused.remark or "")
        assert (await forbidden(None))["readable"] is False
        groups = loads((await ask(CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body)
        assert groups["forbiddenTable"] == {GROUP: {"t": 4}}
        assert groups["dataVersion"]["counter"] > 0
        assert (await forbidden(True))["readable"] is True
        assert (await read(ask)).code == ResponseCode.SUCCESS
        header = UpdateGroupForbiddenRequestHeader(group="no group", topic="t", readable=False)
        assert (await ask(CODE.UPDATE_AND_GET_GROUP_FORBIDDEN, header)).code == ResponseCode.SYSTEM_ERROR

    with_broker(tmp_path, check)


def test_offsets_of_a_group_are_corrected_by_those_of_the_others(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        for group, offsets in (("a", {0: 3, 1: 1}), ("b", {0: 2, 1: 4}), ("c", {0: 1})):
            for queue_id, offset in offsets.items():
                pulled = await ask(CODE.PULL_MESSAGE, pull_header("t", queue_id, consumer_group=group))
                assert pulled.code in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND), pulled.remark
                header = UpdateConsumerOffsetRequestHeader(
                    consumer_group=group, topic="t", queue_id=queue_id, commit_offset=offset
                )
                assert (await ask(CODE.UPDATE_CONSUMER_OFFSET, header)).code == ResponseCode.SUCCESS

        async def corrections(group: str, filtered: str | None = None) -> Any:
            header = QueryCorrectionOffsetHeader(filter_groups=filtered, compare_group=group, topic="t")
            return loads((await ask(CODE.QUERY_CORRECTION_OFFSET, header)).body)["correctionOffsets"]

        none = 2**63 - 1
        assert await corrections("no group") == {"0": 1, "1": 1}
        assert await corrections("a") == {"0": 1, "1": 1}
        assert await corrections("no group", "a,c") == {"0": 2, "1": 4}
        assert await corrections("c", "c") == {"0": none, "1": 1}

    with_broker(tmp_path, check)


def test_members_of_a_group_say_their_offsets(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []

    def offsets(channel: Channel, command: Command) -> None:
        asked.append(dict(command.fields))
        table = queue_map({MessageQueue("t", "broker-a", 0): 7})
        channel.send(answer(command, ResponseCode.SUCCESS, body=encode_body({"messageQueueTable": table})))

    async def check(ask: Ask) -> None:
        status = GetConsumerStatusRequestHeader(topic="t", group=GROUP)
        offline = await ask(CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
        assert (offline.code, "No Any Consumer online" in (offline.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        consumer = ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic="t")])
        body = encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer]))
        assert (await ask(CODE.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
        found = loads((await ask(CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)).body)
        queue = (("brokerName", "broker-a"), ("queueId", 0), ("topic", "t"))
        assert found["consumerTable"] == {"me": {queue: 7}}
        assert asked == [{"topic": "t", "group": GROUP}]
        other = GetConsumerStatusRequestHeader(topic="t", group=GROUP, client_addr="another")
        assert loads((await ask(CODE.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, other)).body)["consumerTable"] == {}

    with_broker(tmp_path, check, answers={CODE.GET_CONSUMER_STATUS_FROM_CLIENT: offsets})


def test_upkeep_is_answered_and_modes_but_pull_are_refused(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        assert (await read(ask)).code == ResponseCode.SUCCESS
        for code in (CODE.CLEAN_EXPIRED_CONSUMEQUEUE, CODE.CLEAN_UNUSED_TOPIC, CODE.DELETE_EXPIRED_COMMITLOG):
            assert (await ask(code)).code == ResponseCode.SUCCESS
        again = await read(ask)
        assert (again.code, again.fields["nextBeginOffset"]) == (ResponseCode.SUCCESS, "3")
        replication = loads((await ask(CODE.GET_BROKER_HA_STATUS)).body)
        assert (replication["master"], replication["haConnectionInfo"]) == (True, [])
        assert replication["masterCommitLogMaxOffset"] > 0
        for topic, group, mode, expected in (
            ("t", GROUP, "PULL", ResponseCode.SUCCESS),
            ("t", GROUP, "POP", ResponseCode.REQUEST_CODE_NOT_SUPPORTED),
            ("none", GROUP, "PULL", ResponseCode.TOPIC_NOT_EXIST),
            ("t", "new", "PULL", ResponseCode.SUCCESS),
            ("t", "bad name", "PULL", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
            ("%RETRY%g", GROUP, "PULL", ResponseCode.NO_PERMISSION),
        ):
            body = SetMessageRequestModeRequestBody(topic=topic, consumer_group=group, mode=mode)
            found = await ask(CODE.SET_MESSAGE_REQUEST_MODE, None, encode_body(body))
            assert found.code == expected, (topic, group, mode, found.remark)

    with_broker(tmp_path, check)


async def commit(ask: Ask, offset: int, topic: str = "t", group: str = GROUP) -> None:
    """Commit the next offset of queue 0."""
    header = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=0, commit_offset=offset)
    done = await ask(CODE.UPDATE_CONSUMER_OFFSET, header)
    assert done.code == ResponseCode.SUCCESS, done.remark


async def online(ask: Ask, *topics: str) -> None:
    """Send a heartbeat of a member of the usual group."""
    consumer = ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=one) for one in topics])
    body = encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer]))
    assert (await ask(CODE.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


def by_topic(table: Any) -> dict[str, dict[str, int]]:
    """Return the figures of queue 0 of each topic."""
    return {dict(queue)["topic"]: figures for queue, figures in table.items() if dict(queue)["queueId"] == 0}


async def progress(ask: Ask, **named: Any) -> dict[str, dict[str, int]]:
    """Return the usual group's figures of queue 0 by topic (request 208)."""
    header = GetConsumeStatsRequestHeader(consumer_group=GROUP, **named)
    return by_topic(loads((await ask(CODE.GET_CONSUME_STATS, header)).body)["offsetTable"])


def test_messages_that_are_pulled_and_not_consumed_are_in_flight(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def offsets() -> tuple[int, ...]:
            found = (await progress(ask))["t"]
            return found["brokerOffset"], found["consumerOffset"], found["pullOffset"]

        pulled = await ask(CODE.PULL_MESSAGE, pull_header("t", max_msg_nums=2))
        assert pulled.code == ResponseCode.SUCCESS
        await commit(ask, 1)
        assert await offsets() == (3, 1, 2)
        assert (await ask(CODE.PULL_MESSAGE, pull_header("t", offset=2))).code == ResponseCode.SUCCESS
        assert await offsets() == (3, 1, 3)
        body = loads((await ask(CODE.GET_BROKER_CONSUME_STATS, GetConsumeStatsInBrokerHeader(is_order=False))).body)
        assert (body["totalDiff"], body["totalInflightDiff"]) == (2, 2)
        await commit(ask, 3)
        assert await offsets() == (3, 3, 3)
        done = await ask(CODE.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="t"))
        assert done.code == ResponseCode.SUCCESS
        assert (await ask(CODE.SEND_MESSAGE, send_header("t"), b"0")).code == ResponseCode.SUCCESS
        await commit(ask, 0)
        assert await offsets() == (1, 0, 0)

    with_broker(tmp_path, check)


def test_progress_is_that_of_the_topics_that_are_listed_or_that_a_group_reads(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        for topic in ("a", "b", "c"):
            assert (await ask(CODE.SEND_MESSAGE, send_header(topic), b"x")).code == ResponseCode.SUCCESS
        for topic in ("a", "b"):
            await read(ask)  # makes the group
            await commit(ask, 1, topic)

        async def of_all() -> set[str]:
            header = GetConsumeStatsInBrokerHeader(is_order=False)
            found = loads((await ask(CODE.GET_BROKER_CONSUME_STATS, header)).body)["consumeStatsList"]
            (parts,) = [one[GROUP] for one in found if GROUP in one]
            return {topic for part in parts for topic in by_topic(part["offsetTable"])}

        assert (set(await progress(ask)), await of_all()) == ({"a", "b"}, {"a", "b"})
        assert set(await progress(ask, topic="c")) == {"c"}
        await online(ask, "a", "c")
        assert (set(await progress(ask)), await of_all()) == ({"a"}, {"a"})
        assert set(await progress(ask, topic="b")) == set()
        assert set(await progress(ask, topic="c")) == {"c"}
        assert set(await progress(ask, topic_list="b;c;none;", topic="a")) == {"b", "c"}
        assert set(await progress(ask, topic_list=";")) == {"a"}
        assert (await ask(CODE.PULL_MESSAGE, pull_header("b"))).code == ResponseCode.SUCCESS
        assert (set(await progress(ask)), await of_all()) == ({"a", "b"}, {"a", "b"})

    with_broker(tmp_path, check)


def test_files_whose_time_is_over_are_deleted_when_an_operator_asks(tmp_path: Path) -> None:
    log = tmp_path / "s" / "commitlog"

    async def check(ask: Ask) -> None:
        async def first_offset() -> int:
            found = await ask(CODE.GET_MIN_OFFSET, GetMinOffsetRequestHeader(topic="t", queue_id=0))
            return int(found.fields["offset"])

        for _ in range(6):
            assert (await ask(CODE.SEND_MESSAGE, send_header("t"), b"x" * 400_000)).code == ResponseCode.SUCCESS
        files = sorted(log.iterdir())
        assert len(files) == 3
        assert (await ask(CODE.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS
        assert (sorted(log.iterdir()), await first_offset()) == (files, 0)
        for one in files[:-1]:
            os.utime(one, (OLD_S, OLD_S))
        assert (await ask(CODE.DELETE_EXPIRED_COMMITLOG)).code == ResponseCode.SUCCESS
        assert sorted(log.iterdir()) == files[-1:]
        begin = await first_offset()
        assert begin > 0
        pulled = await ask(CODE.PULL_MESSAGE, pull_header("t", offset=begin))
        assert (pulled.code, pulled.fields["minOffset"]) == (ResponseCode.SUCCESS, str(begin))

    with_broker(tmp_path, check, fileReservedTime="48", cleanFileForciblyEnable="false")


def test_a_deleted_group_is_removed_and_its_offsets_if_that_is_asked_for(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def offset(group: str) -> tuple[int, str | None]:
            header = QueryConsumerOffsetRequestHeader(
                consumer_group=group, topic="t", queue_id=0, set_zero_if_not_found=False
            )
            found = await ask(CODE.QUERY_CONSUMER_OFFSET, header)
            return found.code, found.fields.get("offset")

        async def exists(group: str) -> bool:
            header = GetSubscriptionGroupConfigRequestHeader(group=group)
            return (await ask(CODE.GET_SUBSCRIPTIONGROUP_CONFIG, header)).code == ResponseCode.SUCCESS

        for group in ("kept", "cleaned", "removed", "other"):
            assert (await ask(CODE.PULL_MESSAGE, pull_header(consumer_group=group))).code == ResponseCode.SUCCESS
            commit = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic="t", queue_id=0, commit_offset=2)
            assert (await ask(CODE.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
            assert (await exists(group), await offset(group)) == (True, (ResponseCode.SUCCESS, "2"))
        for header in (
            DeleteSubscriptionGroupRequestHeader(group_name="kept"),
            DeleteSubscriptionGroupRequestHeader(group_name="cleaned", clean_offset=True),
            DeleteSubscriptionGroupRequestHeader(group_name="removed", remove_offset=True),
            DeleteSubscriptionGroupRequestHeader(group_name="never there", clean_offset=True),
        ):
            assert (await ask(CODE.DELETE_SUBSCRIPTIONGROUP, header)).code == ResponseCode.SUCCESS
        assert [await exists(one) for one in ("kept", "cleaned", "removed", "other")] == [False, False, False, True]
        assert (await offset("kept"), await offset("other")) == ((ResponseCode.SUCCESS, "2"),) * 2
        for group in ("cleaned", "removed"):
            assert await offset(group) == (ResponseCode.QUERY_NOT_FOUND, None)
        topics = loads((await ask(CODE.GET_ALL_CONSUMER_OFFSET)).body)["offsetTable"]
        assert sorted(topics) == ["t@kept", "t@other"]

    with_broker(tmp_path, check)


def test_topics_of_a_group_and_its_subscription_are_named(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def topics(group: str) -> Any:
            return loads(
                (await ask(CODE.QUERY_TOPICS_BY_CONSUMER, QueryTopicsByConsumerRequestHeader(group=group))).body
            )

        async def subscription(topic: str) -> Any:
            header = QuerySubscriptionByConsumerRequestHeader(group=GROUP, topic=topic)
            return loads((await ask(CODE.QUERY_SUBSCRIPTION_BY_CONSUMER, header)).body)

        assert (await topics(GROUP))["topicList"] == []
        assert await subscription("t") == {"group": GROUP, "topic": "t"}
        assert (await ask(CODE.SEND_MESSAGE, send_header("u"))).code == ResponseCode.SUCCESS
        for group, topic in ((GROUP, "u"), (GROUP, "t"), ("other", "t")):
            commit = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=0, commit_offset=1)
            assert (await ask(CODE.PULL_MESSAGE, pull_header(topic, consumer_group=group))).code == ResponseCode.SUCCESS
            assert (await ask(CODE.UPDATE_CONSUMER_OFFSET, commit)).code == ResponseCode.SUCCESS
        found = await topics(GROUP)
        assert found["topicList"] == ["t", "u"]
        assert found["brokerAddr"].startswith("127.0.0.1:")
        wanted = SubscriptionData(topic="t", sub_string="paid", tags_set=["paid"])
        consumer = ConsumerData(group_name=GROUP, subscription_data_set=[wanted])
        body = encode_body(HeartbeatData(client_id="me", consumer_data_set=[consumer]))
        assert (await ask(CODE.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
        answered = (await subscription("t"))["subscriptionData"]
        assert (answered["topic"], answered["subString"], answered["tagsSet"]) == ("t", "paid", ["paid"])
        assert "subscriptionData" not in await subscription("u")

    with_broker(tmp_path, check)


def test_system_topics_are_named_and_stay_as_they_are(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def system() -> list[str]:
            return list(loads((await ask(CODE.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)).body)["topicList"])

        found = await system()
        own = {"broker-a", "RF", "RF_REPLY_TOPIC", "traces"}
        assert {"TBW102", "SCHEDULE_TOPIC_XXXX", "SELF_TEST_TOPIC", *own} <= set(found)
        assert "t" not in found
        for name in found:
            changed = await ask(CODE.UPDATE_AND_CREATE_TOPIC, topic_header(name, 9))
            deleted = await ask(CODE.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=name))
            assert (changed.code, deleted.code) == (ResponseCode.INVALID_PARAMETER,) * 2, name
        assert await system() == found

    own = {"brokerClusterName": "RF", "traceTopicEnable": "true", "msgTraceTopicName": "traces"}
    with_broker(tmp_path, check, **own)


def test_the_time_of_the_last_read_message_is_that_of_the_topic_that_exists_now(tmp_path: Path) -> None:
    async def check(ask: Ask) -> None:
        async def last_read() -> int:
            assert (await read(ask)).code == ResponseCode.SUCCESS
            await commit(ask, 3)
            found = [
                loads((await ask(CODE.GET_CONSUME_STATS, GetConsumeStatsRequestHeader(consumer_group=GROUP))).body)
                for _ in range(2)
            ]
            assert found[0] == found[1]
            queue = (("brokerName", "broker-a"), ("queueId", 0), ("topic", "t"))
            figures = found[0]["offsetTable"][queue]
            assert (figures["brokerOffset"], figures["consumerOffset"], figures["pullOffset"]) == (3, 3, 3)
            return int(figures["lastTimestamp"])

        first = await last_read()
        assert first > 0
        assert (
            await ask(CODE.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic="t"))
        ).code == ResponseCode.SUCCESS
        await asyncio.sleep(0.01)
        for number in range(3):
            assert (await ask(CODE.SEND_MESSAGE, send_header("t"), b"%d" % number)).code == ResponseCode.SUCCESS
        assert await last_read() > first

    with_broker(tmp_path, check)
