"""`rocketflow admin` on a running NameServer and broker: what each subcommand prints and does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rocketflow.aio.loop import run as run_loop
from rocketflow.cli.app import run
from rocketflow.client import (
    ConsumeContext,
    ConsumeFrom,
    Message,
    Producer,
    ProducerOptions,
    PullConsumer,
    PullOptions,
    PushConsumer,
    PushOptions,
)
from rocketflow.client.admin.admin_client import AdminClient
from rocketflow.client.admin.figures import subscribe_alike
from rocketflow.client.options import ClientOptions
from rocketflow.remoting.bodies import MessageQueue
from rocketflow.testing import Cluster, start_cluster
from tests.support.output_fields import check_fields
from tests.support.servers import until

Printed = Callable[..., str]
Rows = Callable[..., list[dict[str, Any]]]
TOPIC = "orders"
QUEUES = 2
_FIRST = ("-b", "broker-a", "-i", "0", "-o", "0")
_GOOD = ("bodyError",)
"""Fields that no message of these tests has."""
_BODIES = ("-p", "true", "-d", "true")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with start_cluster() as started:
        started.create_topic(TOPIC, queues=QUEUES)

        async def fill() -> None:
            async with Producer(ProducerOptions(group="shop", name_servers=started.name_server_address)) as producer:
                for number in range(6):
                    message = Message(TOPIC, b"body %d" % number, tags="paid", keys=f"o-{number}")
                    await producer.send(message, to=MessageQueue(TOPIC, "broker-a", number % QUEUES))

        run_loop(fill())
        yield started


@pytest.fixture
def printed(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Printed:
    def call(name: str, *arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        done = run(["admin", name, "-n", cluster.name_server_address, *arguments])
        found = capsys.readouterr()
        assert done == code, found.err
        return found.out if code == 0 else found.err

    return call


@pytest.fixture
def rows(printed: Printed) -> Rows:
    def call(name: str, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in printed(name, *arguments, "--json").splitlines()]

    return call


def test_topics_are_created_changed_listed_and_deleted(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    at = ("-b", cluster.broker_address, "-t", "made")
    assert printed("updateTopic", *at, "-r", "3", "-w", "2") == f"create topic to {cluster.broker_address} success.\n"
    (route,) = rows("topicRoute", "-t", "made")
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 6)
    assert "made" in printed("topicList").splitlines()
    (changed,) = rows("updateTopicPerm", *at, "-p", "4")
    assert (changed["oldPerm"], changed["perm"]) == (6, 4)
    (queues,) = rows("topicRoute", "-t", "made")[0]["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 2, 4)
    (made,) = rows("updateTopic", "-c", "DefaultCluster", "-t", "made", "-a", "+message.type=NORMAL")
    assert (made["brokerAddr"], made["writeQueueNums"]) == (cluster.broker_address, 8)
    (where,) = rows("topicClusterList", "-t", "made")
    assert where == {"cluster": "DefaultCluster"}
    rows("updateTopic", *at, "-u", "true", "-s", "true")
    assert rows("topicRoute", "-t", "made")[0]["queueDatas"][0]["topicSysFlag"] == 3
    rows("updateTopic", *at, "-w", "8", "-r", "8")
    table = printed("topicRoute", "-t", "made", "-l").splitlines()
    assert table[1].split() == ["DefaultCluster", "broker-a", f"{{0={cluster.broker_address}}}", "8", "8", "6"]
    (deleted,) = rows("deleteTopic", "-c", "DefaultCluster", "-t", "made")
    assert "made" not in printed("topicList").splitlines()
    check_fields("admin topicRoute", route)
    check_fields("admin updateTopicPerm", changed)
    check_fields("admin updateTopic", made)
    check_fields("admin topicClusterList", where)
    check_fields("admin deleteTopic", deleted)


def test_topic_with_more_queues_to_send_to_than_to_read_is_noted(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("updateTopic", "-n", cluster.name_server_address, "-b", cluster.broker_address, "-t", "wide")
    for given, unread in ((("-w", "6", "-r", "4"), "4 to 5"), (("-w", "9"), "8"), (("-w", "4", "-r", "8"), None)):
        assert run(["admin", *at, *given, "--json"]) == 0
        out, err = capsys.readouterr()
        assert out.count("\n") == 1
        said = f"what producers send to queue {unread} is not read until -r follows"
        assert err.count("\n") == (0 if unread is None else 1)
        assert unread is None or (err.startswith("note: topic wide: -w ") and said in err)


def test_change_that_hides_messages_is_refused_without_force(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    at = ("-b", cluster.broker_address, "-t", cluster.create_topic("narrow", queues=4))

    async def fill() -> None:
        async with Producer(ProducerOptions(group="shop", name_servers=cluster.name_server_address)) as producer:
            for queue in (0, 2, 2, 3):
                await producer.send(Message("narrow", b"x"), to=MessageQueue("narrow", "broker-a", queue))

    run_loop(fill())
    refused = printed("updateTopic", *at, "-w", "2", "-r", "2", code=1)
    assert refused == (
        f"error: topic narrow at {cluster.broker_address}: 3 messages in queue 2, 3 would be hidden from consumers by "
        "-r 2: set only -w, and -r once they are consumed, or add --force\n"
    )
    assert printed("updateTopic", "-c", "DefaultCluster", "-t", "narrow", "-w", "1", "-r", "3", code=1)
    (queues,) = rows("topicRoute", "-t", "narrow")[0]["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (4, 4)
    rows("updateTopic", *at, "-w", "2", "-r", "4")
    log = cluster.directory / "broker.log"
    assert "hidden" not in log.read_text()
    rows("updateTopic", *at, "-w", "2", "-r", "2", "--force")
    (queues,) = rows("topicRoute", "-t", "narrow")[0]["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"]) == (2, 2)
    assert (
        "topic narrow: 3 messages of its last 2 queues are hidden from consumers: readQueueNums was 4"
        in log.read_text()
    )


def test_deletion_of_a_topic_that_no_broker_has_is_an_error(printed: Printed) -> None:
    refused = printed("deleteTopic", "-c", "DefaultCluster", "-t", "nothing", code=1)
    assert refused.startswith("error: topic 'nothing' has no route: ")


def test_attributes_of_a_topic_are_set_kept_and_removed(cluster: Cluster, rows: Rows) -> None:
    at = ("-b", cluster.broker_address, "-t", "typed")

    async def attributes() -> object:
        async with AdminClient(ClientOptions(name_servers=cluster.name_server_address)) as admin:
            return (await admin.topic_config(cluster.broker_address, "typed")).attributes

    rows("updateTopic", *at, "-a", "+message.type=FIFO,+reserve.time=7")
    rows("updateTopicPerm", *at, "-p", "4")
    assert run_loop(attributes()) == {"message.type": "FIFO", "reserve.time": "7"}
    rows("updateTopic", *at, "-a", "-message.type,+reserve.time=8")
    assert run_loop(attributes()) == {"reserve.time": "8"}
    rows("updateTopic", *at)
    assert run_loop(attributes()) == {"reserve.time": "8"}


def test_ordered_topic_has_a_text_at_the_name_server(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    rows("updateTopic", "-b", cluster.broker_address, "-t", "in-order", "-w", "3", "-o", "true")

    async def order() -> str:
        from rocketflow.remoting.codes import RequestCode
        from rocketflow.remoting.headers.route import GetKVConfigRequestHeader, GetKVConfigResponseHeader

        async with AdminClient(ClientOptions(name_servers=cluster.name_server_address)) as admin:
            header = GetKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="in-order")
            reply = await admin.cluster.ask_name_server(RequestCode.GET_KV_CONFIG, header)
            return str(reply.header(GetKVConfigResponseHeader).value)

    assert run_loop(order()) == "broker-a:3"
    (text,) = rows("updateKvConfig", "-s", "NS", "-k", "key", "-v", "value")
    (removed,) = rows("deleteKvConfig", "-s", "NS", "-k", "key")
    check_fields("admin updateKvConfig", text)
    check_fields("admin deleteKvConfig", removed)


def test_offsets_of_queues(printed: Printed, rows: Rows) -> None:
    found = rows("topicStatus", "-t", TOPIC)
    assert [(one["queueId"], one["minOffset"], one["maxOffset"]) for one in found] == [(0, 0, 3), (1, 0, 3)]
    check_fields("admin topicStatus", *found)
    head, first, _ = printed("topicStatus", "-t", TOPIC).splitlines()
    assert head.split("  ") != first.split("  ")
    assert [part.strip() for part in head.split("#") if part] == [
        *("Broker Name", "QID", "Min Offset", "Max Offset", "Last Updated")
    ]


def test_messages_are_found_by_key_id_and_offset(printed: Printed, rows: Rows) -> None:
    (by_key,) = rows("queryMsgByKey", "-t", TOPIC, "-k", "o-3")
    assert (by_key["body"], by_key["tags"], by_key["queueId"], by_key["queueOffset"]) == ("body 3", "paid", 1, 1)
    (by_id,) = rows("queryMsgById", "-i", by_key["msgId"])
    (by_unique,) = rows("queryMsgByUniqueKey", "-t", TOPIC, "-i", by_key["uniqKey"])
    (by_offset,) = rows("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "1")
    check_fields("admin queryMsgByKey", by_key, absent=_GOOD)
    assert by_id.pop("tracks") == by_unique.pop("tracks") == by_offset.pop("tracks")
    assert by_key == by_unique == by_offset == {**by_id, "brokerName": "broker-a"}
    text = printed("queryMsgById", "-i", by_key["msgId"])
    assert f"OffsetID:            {by_key['msgId']}\n" in text
    assert "Message Body:        body 3\n" in text
    assert by_key["uniqKey"] in printed("queryMsgByKey", "-t", TOPIC, "-k", "o-3")
    assert printed("queryMsgByKey", "-t", TOPIC, "-k", "none").split() == ["#Message", "ID", "#QID", "#Offset"]
    assert "has no message" in printed("queryMsgByUniqueKey", "-t", TOPIC, "-i", "0" * 32, code=1)
    assert "it has [0, 3)" in printed("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "9", code=1)


def test_query_by_key_within_its_own_millisecond_finds_the_message(rows: Rows) -> None:
    for number in range(6):
        (stored,) = rows("queryMsgByKey", "-t", TOPIC, "-k", f"o-{number}")
        at = stored["storeTimestamp"]
        window = ("queryMsgByKey", "-t", TOPIC, "-k", f"o-{number}")
        assert rows(*window, "-b", str(at), "-e", str(at)) == [stored]
        assert rows(*window, "-b", str(at + 1)) == rows(*window, "-e", str(at - 1)) == []


def test_messages_of_a_topic_are_printed(printed: Printed, rows: Rows) -> None:
    found = rows("printMsg", "-t", TOPIC)
    assert [one["body"] for one in found] == [f"body {number}" for number in (0, 2, 4, 1, 3, 5)]
    check_fields("admin printMsg", *found, absent=_GOOD)
    assert rows("printMsg", "-t", TOPIC, "-s", "other") == []
    assert rows("printMsg", "-t", TOPIC, "-e", str(found[0]["storeTimestamp"])) == []
    assert "body" not in rows("printMsg", "-t", TOPIC, "-d", "false")[0]
    assert printed("printMsg", "-t", TOPIC).startswith("minOffset=0, maxOffset=3, broker-a queue 0\n")
    some = rows("consumeMessage", "-t", TOPIC, "-b", "broker-a", "-i", "1", "-o", "1")
    assert [one["body"] for one in some] == ["body 3", "body 5"]
    check_fields("admin consumeMessage", *some, absent=_GOOD)
    assert len(rows("consumeMessage", "-t", TOPIC, "-c", "4")) == 4
    assert "needs its broker" in printed("consumeMessage", "-t", TOPIC, "-i", "1", code=2)


def test_messages_of_a_queue_are_printed_and_counted_by_tag(printed: Printed, rows: Rows) -> None:
    queue = ("-t", TOPIC, "-a", "broker-a", "-i", "1")
    assert printed("printMsgByQueue", *queue) == ""
    assert printed("printMsgByQueue", *queue, "-f", "true") == f"Tag: {'paid':<30} Count: 3\n"
    found = rows("printMsgByQueue", *queue, "-p", "true", "-d", "true", "-f", "true")
    assert [one["body"] for one in found[:3]] == ["body 1", "body 3", "body 5"]
    assert found[3:] == [{"tag": "paid", "count": 3}]
    assert "body" not in rows("printMsgByQueue", *queue, "-p", "true")[0]
    assert rows("printMsgByQueue", *queue, "-p", "true", "-s", "other") == []
    check_fields("admin printMsgByQueue", *found, absent=_GOOD)


def test_bodies_are_read_by_a_character_set(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    cluster.create_topic("encoded", queues=1)

    async def send() -> None:
        async with Producer(ProducerOptions(group="shop", name_servers=cluster.name_server_address)) as producer:
            await producer.send(Message("encoded", "訂單".encode("gbk")))

    run_loop(send())
    (found,) = rows("printMsg", "-t", "encoded", "-c", "GBK")
    assert found["body"] == "訂單"
    assert "Message Body:        訂單\n" in printed("queryMsgById", "-i", found["msgId"], "-f", "GBK")
    assert "訂單" in printed("printMsgByQueue", "-t", "encoded", *("-a", "broker-a", "-i", "0"), *_BODIES, "-c", "GBK")
    assert "WARN: No Consumer" in printed("queryMsgById", "-i", found["msgId"])


def test_tracks_say_what_groups_did_with_a_message(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    cluster.create_topic("tracked", queues=1)
    names = cluster.name_server_address
    found: dict[str, Any] = {}
    consumed: list[bytes] = []

    async def listen(messages: list[Any], context: ConsumeContext) -> None:
        consumed.extend(one.body for one in messages)

    async def connected() -> None:
        options = PushOptions(group="eager", name_servers=names, consume_from=ConsumeFrom.FIRST)
        consumer = PushConsumer(options, listen)
        await consumer.subscribe("tracked", "paid")
        async with (
            Producer(ProducerOptions(group="shop", name_servers=names)) as producer,
            PullConsumer(PullOptions(group="reads", name_servers=names)) as puller,
        ):
            await puller.subscribe("tracked")
            for tag in ("paid", "refunded", "paid"):
                found[tag] = (await producer.send(Message("tracked", b"body", tags=tag))).offset_message_id
            async with consumer, asyncio.timeout(60):
                while len(consumed) < 2:
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(ask, consumer.client_id)

    def ask(client_id: str) -> None:
        latest = time.monotonic() + 60
        while True:  # offsets are persisted every 5 s
            (found["row"],) = rows("queryMsgById", "-i", found["paid"])
            if found["row"]["tracks"][0]["trackType"] == "CONSUMED" or time.monotonic() > latest:
                break
            time.sleep(0.5)
        (found["filtered"],) = rows("queryMsgById", "-i", found["refunded"])
        found["text"] = printed("queryMsgById", "-i", found["paid"])
        at = ("-g", "eager", "-d", client_id)
        (found["direct"],) = rows("queryMsgById", "-i", found["paid"], *at)
        key = ("-t", "tracked", "-i", found["row"]["uniqKey"])
        check_fields("admin queryMsgByUniqueKey", *rows("queryMsgByUniqueKey", *key), found["direct"], absent=_GOOD)
        check_fields("admin queryMsgByOffset", *rows("queryMsgByOffset", "-t", "tracked", *_FIRST), absent=_GOOD)
        found["by_key"] = printed("queryMsgByUniqueKey", *key, *at)
        found["without"] = printed("queryMsgByUniqueKey", *key, "-g", "eager", code=2)
        found["unknown"] = printed("queryMsgByUniqueKey", *key, "-g", "eager", "-d", "other", code=1)

    run_loop(connected())
    assert [(one["consumerGroup"], one["trackType"]) for one in found["row"]["tracks"]] == [
        ("eager", "CONSUMED"),
        ("reads", "PULL"),
    ]
    assert found["filtered"]["tracks"][0]["trackType"] == "CONSUMED_BUT_FILTERED"
    assert "MessageTrack [consumerGroup=eager, trackType=CONSUMED, exceptionDesc=null]" in found["text"]
    assert found["direct"]["consumeResult"] == "CR_SUCCESS"
    begin = "ConsumeMessageDirectlyResult [order=false, autoCommit=true, consumeResult=CR_SUCCESS, remark=null, spent"
    assert found["by_key"].startswith(begin)
    assert "give both, or neither" in found["without"]
    assert "<eager> <other> not online" in found["unknown"]
    assert consumed == [b"body"] * 4
    offline = rows("queryMsgById", "-i", found["paid"])[0]["tracks"]
    assert {one["trackType"] for one in offline} == {"NOT_ONLINE"}
    (again,) = rows("queryMsgById", "-i", found["paid"], "-s", "true")
    check_fields("admin queryMsgById", found["row"], found["direct"], again, absent=_GOOD)


def test_message_is_sent_again_under_its_unique_key(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    cluster.create_topic("resent", queues=1)
    (sent,) = rows("sendMessage", "-t", "resent", "-p", "hello", "-k", "k1", "-c", "tag")
    (first,) = rows("queryMsgByUniqueKey", "-t", "resent", "-i", sent["uniqKey"])
    (again,) = rows("queryMsgById", "-i", first["msgId"], "-s", "true", "-u", "unit")
    assert (again["status"], again["uniqKey"], again["msgId"]) == ("SEND_OK", sent["uniqKey"], first["msgId"])
    assert "originalMsgId=" in printed("queryMsgById", "-i", first["msgId"], "-s", "true")
    found = rows("printMsg", "-t", "resent")
    assert [(one["body"], one["tags"], one["keys"]) for one in found] == [("hello", "tag", "k1")] * 3


def test_groups_are_created_read_reset_copied_and_deleted(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    (made,) = rows("updateSubGroup", "-b", cluster.broker_address, "-g", "billing", "-r", "3")
    (config,) = rows("getConsumerConfig", "-g", "billing")
    assert (config["config"]["groupName"], config["config"]["retryMaxTimes"]) == ("billing", 3)
    reset = rows("resetOffsetByTime", "-g", "billing", "-t", TOPIC, "-s", "0")
    assert [one["offset"] for one in reset] == [0, 0]
    (progress,) = rows("consumerProgress", "-g", "billing", "-t", TOPIC)
    assert (progress["diffTotal"], [one["diff"] for one in progress["queues"]]) == (6, [3, 3])
    assert "Consume Diff Total: 6" in printed("consumerProgress", "-g", "billing", "-t", TOPIC)
    forward = ("-g", "billing", "-t", TOPIC, "-s", "-1", "-f", "true")
    assert [one["offset"] for one in rows("resetOffsetByTime", *forward)] == [3, 3]
    (copied,) = rows("cloneGroupOffset", "-s", "billing", "-d", "audit", "-t", TOPIC)
    assert copied["queues"] == 2
    assert rows("consumerProgress", "-g", "audit", "-t", TOPIC)[0]["diffTotal"] == 0
    listed = [one for one in rows("topicList", "-c") if one["topic"] == TOPIC]
    assert {"billing", "audit"} <= {one["group"] for one in listed}
    (deleted,) = rows("deleteSubGroup", "-c", "DefaultCluster", "-g", "audit", "-r", "true")
    check_fields("admin updateSubGroup", made)
    check_fields("admin getConsumerConfig", config)
    check_fields("admin resetOffsetByTime", *reset)
    check_fields("admin cloneGroupOffset", copied)
    check_fields("admin deleteSubGroup", deleted)
    check_fields("admin topicList", *listed, *rows("topicList"))


def test_clients_of_groups_are_listed(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    names = cluster.name_server_address
    found: dict[str, list[dict[str, Any]]] = {}

    async def connected() -> None:
        async with (
            Producer(ProducerOptions(group="shop", name_servers=names)) as producer,
            PullConsumer(PullOptions(group="readers", name_servers=names)) as consumer,
        ):
            await producer.send(Message("others", b"x"))
            await consumer.subscribe(TOPIC, "paid")
            await consumer.poll(0.1)
            await asyncio.to_thread(ask)

    def ask() -> None:
        found["producer"] = rows("producerConnection", "-g", "shop", "-t", "others")
        found["consumer"] = rows("consumerConnection", "-g", "readers")
        found["groups"] = rows("consumerProgress")
        found["text"] = [{"text": printed("consumerConnection", "-g", "readers")}]
        found["progress"] = rows("consumerProgress", "-g", "readers", "-t", TOPIC, "-s", "true")
        found["status"] = rows("consumerStatus", "-g", "readers")

    run_loop(connected())
    assert [one["version"] for one in found["producer"]] == ["V5_3_3"]
    (consumer,) = found["consumer"]
    assert {"topic": TOPIC, "subString": "paid"} in consumer["subscriptions"]
    assert "Below is subscription:" in found["text"][0]["text"]
    assert {one["clientIp"] for one in found["progress"][0]["queues"]} != {"N/A"}
    assert found["status"][0]["sameSubscription"] is True
    (group,) = [one for one in found["groups"] if one["group"] == "readers"]
    assert (group["count"], group["type"]) == (1, "PULL")
    check_fields("admin producerConnection", *found["producer"])
    check_fields("admin consumerConnection", consumer)
    shown = rows("consumerProgress", "-g", "readers", "-t", TOPIC, "-s", "true")  # no client is connected any more
    assert {one["clientIp"] for one in shown[0]["queues"]} == {"N/A"}
    check_fields("admin consumerProgress", group, *shown)
    assert "no consumer of group" in printed("consumerConnection", "-g", "unknown", code=1)


def test_clients_report_what_they_read(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    names, group = cluster.name_server_address, "reporters"
    found: dict[str, Any] = {}

    async def connected() -> None:
        came = asyncio.Event()

        async def listen(messages: list[Any], context: ConsumeContext) -> None:
            came.set()

        options = PushOptions(group=group, name_servers=names, consume_from=ConsumeFrom.FIRST)
        consumer = PushConsumer(options, listen)
        await consumer.subscribe(TOPIC, "paid")
        async with consumer, Producer(ProducerOptions(group="shop", name_servers=names)) as producer:
            await producer.send(Message("others", b"x"))
            async with asyncio.timeout(60):
                await came.wait()
                while len([one for one in consumer.queues() if one.topic == TOPIC]) < QUEUES:
                    await asyncio.sleep(0.02)
            found["id"] = consumer.client_id
            await asyncio.to_thread(ask)

    def ask() -> None:
        one = ("-g", group, "-i", found["id"])
        found["status"] = rows("consumerStatus", "-g", group)
        found["client"] = rows("consumerStatus", *one)
        found["stacks"] = rows("consumerStatus", *one, "-s")
        found["texts"] = [printed("consumerStatus", "-g", group, "-s"), printed("consumerStatus", *one, "-s")]
        found["progress"] = rows("consumerProgress", "-g", group, "-t", TOPIC, "-s", "true")
        found["table"] = printed("consumerProgress", "-g", group, "-t", TOPIC, "-s", "true")
        found["producers"] = rows("producer", "-b", cluster.broker_address)
        found["line"] = printed("producer", "-b", cluster.broker_address)

    run_loop(connected())
    (status,) = found["status"]
    assert ([one["clientId"] for one in status["connections"]], status["sameSubscription"]) == ([found["id"]], True)
    (client,) = found["client"]
    assert {"topic": TOPIC, "subString": "paid"} in client["subscriptions"]
    assert {one["queueId"] for one in client["queues"] if one["topic"] == TOPIC} == {0, 1}
    assert "Same subscription in the same group of consumer" in found["texts"][0]
    heads = [line.strip("#") for line in found["texts"][1].splitlines() if line.startswith("#") and line.endswith("#")]
    assert heads == [
        "Consumer Properties",
        "Consumer Subscription",
        "Consumer Offset",
        "Consumer MQ Detail",
        "Consumer Pop Detail",
        "Consumer RT&TPS",
        "User Consume Info",
        "Consumer jstack",
    ]
    assert "\n001 Topic: " in found["texts"][1]
    assert "jstack" not in client
    assert "jstack" not in status["connections"][0]
    assert f"#Consumer jstack# {found['id']}\n" in found["texts"][0]
    assert "running_info.py" in found["stacks"][0]["jstack"]
    host = found["id"].partition("@")[0]
    (progress,) = found["progress"]
    assert [one["clientIp"] for one in progress["queues"]] == [host, host]
    assert "#Client IP" in found["table"].splitlines()[0]
    (producer,) = [one for one in found["producers"] if one["group"] == "shop"]
    assert f"producer group (shop) instance : clientId={producer['clientId']},remoteIP=" in found["line"]
    check_fields("admin consumerStatus", status, client, *found["stacks"])
    check_fields("admin producer", producer)


def test_clients_that_subscribe_differently_are_reported(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    options = PullOptions(group="disputed", name_servers=cluster.name_server_address)
    found: dict[str, Any] = {}

    def ask() -> None:
        found["text"] = printed("consumerStatus", "-g", "disputed")
        (found["status"],) = rows("consumerStatus", "-g", "disputed")

    async def connected() -> None:
        async with PullConsumer(options) as one, PullConsumer(options) as two:
            await one.subscribe(TOPIC, "paid")
            await two.subscribe(TOPIC, "refunded")
            await asyncio.to_thread(ask)

    run_loop(connected())
    assert found["text"].endswith("\nWARN: Different subscription in the same group of consumer!!!\n")
    assert (len(found["status"]["connections"]), found["status"]["sameSubscription"]) == (2, False)


@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([[("t", "a")], [("t", "a")]], True),
        ([[("t", "a")], None, [("t", "b")]], False),
        ([[("t", "a")], None], None),
        ([None, None], None),
    ],
)
def test_clients_that_do_not_report_are_not_taken_for_the_same(
    reports: list[list[tuple[str, str]] | None], expected: bool | None
) -> None:
    assert subscribe_alike(reports) is expected


@pytest.mark.parametrize("more", [(), ("-f", "false")])
def test_reset_without_force_only_moves_offsets_back(
    cluster: Cluster, rows: Rows, capsys: pytest.CaptureFixture[str], more: tuple[str, ...]
) -> None:
    broker, group = cluster.broker_address, f"careful{len(more)}"
    at = ("-g", group, "-t", TOPIC)
    rows("updateSubGroup", "-b", broker, "-g", group)

    def reset(*words: str) -> list[int]:
        return [one["offset"] for one in rows("resetOffsetByTime", *at, *words)]

    def offsets() -> list[int]:
        (progress,) = rows("consumerProgress", *at)
        return [one["consumerOffset"] for one in progress["queues"]]

    assert reset("-s", "-1", *more) == offsets() == [0, 0]
    assert reset("-s", "0", "-b", broker, "-q", "1", "-o", "2", "-f", "true") == [2]
    capsys.readouterr()
    assert run(["admin", "resetOffsetByTime", "-n", cluster.name_server_address, *at, "-s", "now", *more]) == 0
    kept = "2 queues keep their lower offsets: 4 messages are not skipped; -f true skips them\n"
    assert capsys.readouterr().err == kept
    assert reset("-s", "0", "-b", broker, "-q", "1", "-o", "3", *more) == [2]
    assert offsets() == [0, 2]
    assert reset("-s", "0", "-b", broker, "-q", "1", "-o", "1", *more) == [1]
    assert reset("-s", "-1", "-f", "true") == offsets() == [3, 3]
    assert reset("-s", "0", *more) == offsets() == [0, 0]


def test_one_queue_is_reset_and_all_progress_at_a_broker_is_printed(
    cluster: Cluster, printed: Printed, rows: Rows
) -> None:
    at = ("-g", "counters", "-t", TOPIC, "-b", cluster.broker_address, "-q", "1")
    rows("updateSubGroup", "-b", cluster.broker_address, "-g", "counters")
    rows("resetOffsetByTime", "-g", "counters", "-t", TOPIC, "-s", "-1", "-f", "true")
    (reset,) = rows("resetOffsetByTime", *at, "-s", "0")
    assert reset["offset"] == 0
    assert _offsets(rows) == [3, 0]
    assert rows("resetOffsetByTime", *at, "-s", "-1", "-f", "true")[0]["offset"] == 3
    assert printed("resetOffsetByTime", *at, "-s", "now", "-o", "2") == "reset consumer offset to 2\n"
    assert _offsets(rows) == [3, 2]
    found = [one for one in rows("brokerConsumeStats", "-b", cluster.broker_address) if one["group"] == "counters"]
    assert [(one["topic"], one["queueId"], one["diff"]) for one in found] == [(TOPIC, 0, 0), (TOPIC, 1, 1)]
    late = rows("brokerConsumeStats", "-b", cluster.broker_address, "-l", "1")
    assert [one["queueId"] for one in late if one["group"] == "counters"] == [1]
    text = printed("brokerConsumeStats", "-b", cluster.broker_address, "-t", "9000", "-o", "false")
    assert "#Consumer Offset" in text.splitlines()[0]
    assert "Diff Total: " in text
    check_fields("admin resetOffsetByTime", reset)
    check_fields("admin brokerConsumeStats", *found)


def _offsets(rows: Rows) -> list[int]:
    (found,) = rows("consumerProgress", "-g", "counters", "-t", TOPIC)
    return [one["consumerOffset"] for one in found["queues"]]


def test_all_settings_of_a_group_can_be_given(cluster: Cluster, rows: Rows) -> None:
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}
    given = ("-i", "1", "-w", "2", "-a", "false", "-p", json.dumps(policy))
    rows("updateSubGroup", "-b", cluster.broker_address, "-g", "settings", *given)
    config = rows("getConsumerConfig", "-g", "settings")[0]["config"]
    assert (config["brokerId"], config["whichBrokerWhenConsumeSlowly"]) == (1, 2)
    assert config["notifyConsumerIdsChangedEnable"] is False
    assert config["groupRetryPolicy"]["type"] == "EXPONENTIAL"


def test_a_message_is_sent_to_a_queue(rows: Rows, printed: Printed, cluster: Cluster) -> None:
    cluster.create_topic("sent", queues=2)
    at = ("-t", "sent", "-p", "hello", "-k", "k1", "-c", "tag")
    (sent,) = rows("sendMessage", *at, "-b", "broker-a", "-i", "1")
    assert (sent["brokerName"], sent["queueId"], sent["status"]) == ("broker-a", 1, "SEND_OK")
    (found,) = rows("queryMsgByUniqueKey", "-t", "sent", "-i", sent["uniqKey"])
    assert (found["body"], found["tags"], found["keys"], found["queueId"]) == ("hello", "tag", "k1", 1)
    assert "SEND_OK" in printed("sendMessage", *at, "-m", "true")
    assert "name one queue" in printed("sendMessage", *at, "-b", "broker-a", code=2)
    check_fields("admin sendMessage", sent)


def test_messages_of_the_last_day_are_counted_by_topic(rows: Rows, cluster: Cluster) -> None:
    """A broker notes its sums every ten seconds, and of the first hour those of the last minute count."""
    cluster.create_topic("counted", queues=1)
    for _ in range(2):
        rows("sendMessage", "-t", "counted", "-p", "hello")
    assert until(lambda: rows("statsAll", "-t", "counted")[0]["inMsgDay"] == 2, 60)


def test_clusters_and_brokers(cluster: Cluster, printed: Printed, rows: Rows) -> None:
    (one,) = rows("clusterList")
    assert (one["brokerAddr"], one["brokerId"], one["brokerActive"]) == (cluster.broker_address, 0, True)
    (more,) = rows("clusterList", "-m")
    assert more["inTotalToday"] >= 6
    assert "#InTPS(LOAD)" in printed("clusterList")
    assert "#InTotalToday" in printed("clusterList", "-m", "-c", "DefaultCluster")
    assert rows("clusterList", "-c", "none") == []
    (status,) = rows("brokerStatus", "-b", cluster.broker_address)
    assert "msgPutTotalTodayNow" in status["figures"]
    (config,) = rows("getBrokerConfig", "-c", "DefaultCluster")
    assert config["config"]["brokerName"] == "broker-a"
    assert f"============{cluster.broker_address}============" in printed(
        "getBrokerConfig", "-b", cluster.broker_address
    )
    (names,) = rows("getNamesrvConfig")
    assert names["config"]["listenPort"] == cluster.name_server_address.rpartition(":")[2]
    assert "NO_CONSUMER" in printed("statsAll")
    check_fields("admin clusterList", one, more)
    check_fields("admin brokerStatus", status)
    check_fields("admin getBrokerConfig", config)
    check_fields("admin getNamesrvConfig", names)
    check_fields("admin statsAll", *rows("statsAll", "-t", TOPIC))


def test_write_permission_is_wiped_and_added(printed: Printed, rows: Rows) -> None:
    (wiped,) = rows("wipeWritePerm", "-b", "broker-a")
    assert rows("topicRoute", "-t", TOPIC)[0]["queueDatas"][0]["perm"] == 4
    (added,) = rows("addWritePerm", "-b", "broker-a")
    assert rows("topicRoute", "-t", TOPIC)[0]["queueDatas"][0]["perm"] == 6
    assert wiped["topics"] == added["topics"] > 0
    check_fields("admin wipeWritePerm", wiped)
    check_fields("admin addWritePerm", added)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("topicStatus", "-t", "missing"), 1, "topic 'missing' has no route"),
        (("topicStatus",), 2, "Missing option '-t'"),
        (("updateTopic", "-t", "x"), 2, "give either -b HOST:PORT, a broker, or -c NAME, a cluster"),
        (("brokerStatus", "-b", "broker-a"), 2, "-b broker-a: the address of a broker is expected, host:port"),
        (("updateTopic", "-t", "x", "-c", "Nowhere"), 1, "known clusters: DefaultCluster"),
        (("brokerStatus", "-b", "127.0.0.1:1"), 69, "127.0.0.1:1"),
        (("updateTopic", "-t", "x", "-c", "DefaultCluster", "-a", "x=1"), 2, "+name=value to set an attribute"),
        (("updateTopic", "-t", "x", "-c", "DefaultCluster", "-a", "+x=1"), 1, "topic x: attribute x is unknown"),
        (("updateSubGroup", "-g", "g", "-c", "DefaultCluster", "--attributes", "+k=v"), 1, "attribute k is unknown"),
        (("updateSubGroup", "-b", "127.0.0.1:1", "-g", "g", "-p", "{"), 2, "JSON is expected"),
        (("updateSubGroup", "-b", "127.0.0.1:1", "-g", "g", "-p", "{}"), 2, 'EXPONENTIAL" or "CUSTOMIZED'),
        (("resetOffsetByTime", "-g", "g", "-t", TOPIC, "-s", "0", "-q", "1"), 2, "name one queue"),
        (("producer", "-b", "broker-a"), 2, "-b broker-a: the address of a broker is expected"),
        (("resetOffsetByTime", "-g", "g", "-t", TOPIC, "-s", "soon"), 2, "'soon' is no time"),
        (("queryMsgById", "-i", "12"), 1, "'12' is not a message id"),
        (("printMsg", "-t", TOPIC, "-c", "EBCDIC-X"), 2, "'EBCDIC-X' is no character set"),
        (("updateBrokerConfig", "-c", "DefaultCluster", "-k", "a", "-v", "b"), 1, "UPDATE_BROKER_CONFIG"),
        (("topicList", "--credentials", "/missing"), 2, "/missing cannot be read"),
        (("topicList", "--tls-ca", "/missing"), 2, "/missing"),
    ],
)
def test_bad_input_is_named(printed: Printed, arguments: tuple[str, ...], code: int, text: str) -> None:
    said = printed(*arguments, code=code)
    assert said.startswith("error: ")
    assert text in said


def test_servers_that_are_away_are_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["admin", "topicList", "-n", "127.0.0.1:1"]) == 69
    assert "no NameServer answers: 127.0.0.1:1" in capsys.readouterr().err
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")  # no profiles
    assert run(["admin", "topicList"]) == 2
    assert "no NameServer is given: add -n host:port, or set NAMESRV_ADDR" in capsys.readouterr().err
