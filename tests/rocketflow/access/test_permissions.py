"""The table of permissions: every request that a server processes has a row, and rows ask for what RocketMQ's do."""

from __future__ import annotations

import msgspec
import pytest

from rocketflow.access.permissions import (
    ADMINISTRATOR,
    Action,
    Audience,
    Kind,
    Need,
    is_internal_topic,
    record_needs,
    topic_needs,
)
from rocketflow.access.plain_rules import parse_rules
from rocketflow.access.policies import Resource
from rocketflow.remoting.bodies import (
    ConsumerData,
    HeartbeatData,
    LockBatchRequestBody,
    MessageQueueBody,
    SubscriptionData,
    encode_body,
)
from rocketflow.remoting.codes import UNSUPPORTED, RequestCode
from rocketflow.remoting.command import Command
from rocketflow.remoting.errors import RemotingError
from rocketflow_store.model.topic_names import SYSTEM_TOPICS
from tests.support.golden_remoting import codes, permission_samples
from tests.support.processed_codes import BROKER, NAME_SERVER, ROWS

CODE = RequestCode


def needs(code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> list[Need]:
    """Return the needs of a request."""
    return list(ROWS[code].needs_of(Command(code, fields or {}, body=body)))


def test_both_servers_declare_what_they_process_and_no_code_is_that_of_both() -> None:
    assert len(BROKER) >= 80
    assert len(NAME_SERVER) >= 23
    assert BROKER.keys() & NAME_SERVER.keys() == set()


FROM_SERVERS = {
    *(CODE.CHECK_TRANSACTION_STATE, CODE.NOTIFY_CONSUMER_IDS_CHANGED, CODE.RESET_CONSUMER_CLIENT_OFFSET),
    *(CODE.GET_CONSUMER_STATUS_FROM_CLIENT, CODE.PUSH_REPLY_MESSAGE_TO_CLIENT),
}
"""Requests that a broker sends to its clients."""


def test_every_request_of_rocketmq_is_processed_or_has_a_reason() -> None:
    of_both = set(ROWS)
    assert of_both & UNSUPPORTED.keys() == set()
    for version in ("4.9.7", "5.3.3"):
        known = set(codes(version)["RequestCode"].values())
        assert sorted(known - of_both - UNSUPPORTED.keys() - FROM_SERVERS) == []


def test_every_row_has_a_code_of_rocketmq_or_of_rocketflow() -> None:
    known = {*codes("5.3.3")["RequestCode"].values(), *(one for one in CODE if one.name.startswith("ROCKETFLOW_"))}
    assert ROWS.keys() <= known


def test_only_reads_leave_the_cluster_unchanged() -> None:
    for code, row in ROWS.items():
        actions = {action for need in _needs_with_names(code) for action in need.actions}
        if row.audience is Audience.ADMIN:
            assert row.is_read is (actions <= {Action.GET, Action.LIST}), CODE(code)
        assert row.audience is Audience.CLIENT or row.needs, CODE(code)


def _needs_with_names(code: int) -> list[Need]:
    names = ("topic", "b", "group", "consumerGroup", "groupName", "srcGroup", "destGroup", "originTopic")
    return needs(code, dict.fromkeys(names, "n"), b"{}")


UNCHECKED = "RocketMQ asks nothing: its header class has no annotation, or it has none"
ROUTES = "a NameServer gives routes to every account"
DIFFERENT = {
    **dict.fromkeys(
        (
            *(CODE.UPDATE_AND_CREATE_TOPIC_LIST, CODE.GET_ALL_TOPIC_CONFIG, CODE.UPDATE_BROKER_CONFIG),
            *(CODE.GET_BROKER_CONFIG, CODE.GET_BROKER_RUNTIME_INFO, CODE.GET_ALL_CONSUMER_OFFSET),
            CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            *(CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, CODE.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST),
            *(CODE.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, CODE.CLEAN_EXPIRED_CONSUMEQUEUE, CODE.CLEAN_UNUSED_TOPIC),
            *(CODE.UPDATE_NAMESRV_CONFIG, CODE.GET_NAMESRV_CONFIG, CODE.SEND_REPLY_MESSAGE, CODE.SEND_REPLY_MESSAGE_V2),
            *(CODE.DELETE_EXPIRED_COMMITLOG, CODE.LITE_PULL_MESSAGE, CODE.SET_MESSAGE_REQUEST_MODE),
            CODE.GET_BROKER_HA_STATUS,
        ),
        UNCHECKED,
    ),
    **dict.fromkeys(
        (CODE.GET_ROUTEINFO_BY_TOPIC, CODE.GET_BROKER_MEMBER_GROUP, CODE.GET_KV_CONFIG, CODE.GET_KVLIST_BY_NAMESPACE),
        ROUTES,
    ),
    CODE.QUERY_DATA_VERSION: "brokers send it: as a registration",
    CODE.CONSUMER_SEND_MSG_BACK: "also the topic whose message is copied",
    CODE.CLONE_GROUP_OFFSET: "also the group whose offsets are read",
    CODE.RESUME_CHECK_HALF_MESSAGE: "also the cluster: the message can be one of any topic",
    CODE.QUERY_CORRECTION_OFFSET: "the cluster for the groups, of which the answer has all",
    CODE.QUERY_CONSUME_QUEUE: "a topic that is not named is the topic without a name",
}
"""Requests that need something else than RocketMQ's."""

ALSO_OF_THE_TOPIC = "also the group of a retry topic, where RocketMQ needs the group that the request names alone"
OF_THE_TOPIC = (
    "the group of a retry topic, which RocketMQ takes for a topic, or for that of the group that a sender names"
)
DIFFERENT_FOR_RETRY_TOPICS = {
    **dict.fromkeys(
        (
            *(CODE.PULL_MESSAGE, CODE.QUERY_CONSUMER_OFFSET, CODE.UPDATE_CONSUMER_OFFSET),
            *(CODE.HEART_BEAT, CODE.LOCK_BATCH_MQ, CODE.UNLOCK_BATCH_MQ),
        ),
        ALSO_OF_THE_TOPIC,
    ),
    **dict.fromkeys(
        (
            *(CODE.QUERY_MESSAGE, CODE.END_TRANSACTION, CODE.RECALL_MESSAGE),
            *(CODE.SEND_MESSAGE_V2, CODE.SEND_BATCH_MESSAGE),
        ),
        OF_THE_TOPIC,
    ),
}
"""Requests about a retry topic that need something else than RocketMQ's."""


def test_requests_need_what_they_need_of_rocketmqs_accounts() -> None:
    different: dict[bool, set[int]] = {False: set(), True: set()}
    samples = [one for one in permission_samples("5.3.3") if one.code in ROWS]
    assert len(samples) > 240
    for sample in samples:
        body = sample.body or b'{"groupName": "the-group"}'
        found = {
            (str(Resource(one.kind, one.name, False)), one.actions) for one in needs(sample.code, sample.values, body)
        }
        expected = {("Cluster:" if one.startswith("Cluster:") else one, of) for one, of in sample.needs}
        if found != expected:
            different[sample.filled == "retry"].add(sample.code)
    assert different[False] == DIFFERENT.keys()
    assert different[True] - different[False] == DIFFERENT_FOR_RETRY_TOPICS.keys()


@pytest.mark.parametrize("code", [CODE.SEND_MESSAGE, CODE.SEND_MESSAGE_V2, CODE.SEND_BATCH_MESSAGE])
def test_sends_need_their_topic_and_sends_to_a_retry_topic_its_group(code: CODE) -> None:
    field = "topic" if code == CODE.SEND_MESSAGE else "b"
    assert needs(code, {field: "t"}) == [Need(Kind.TOPIC, "t", frozenset({Action.PUB}))]
    assert needs(code, {field: "%RETRY%g", "a": "other"}) == [Need(Kind.GROUP, "g", frozenset({Action.SUB}))]
    assert needs(code, {field: "%DLQ%g"}) == [Need(Kind.TOPIC, "%DLQ%g", frozenset({Action.PUB}))]
    assert needs(code, {field: "RMQ_SYS_TRACE_TOPIC"}) == needs(code, {field: "c_REPLY_TOPIC"}) == []
    by_region = "rmq_sys_TRACE_DATA_cn-east"
    assert needs(code, {field: by_region}) == [Need(Kind.TOPIC, by_region, frozenset({Action.PUB}))]


@pytest.mark.parametrize("code", [CODE.PULL_MESSAGE, CODE.LITE_PULL_MESSAGE, CODE.ROCKETFLOW_PULL_RANGE])
def test_pulls_need_topic_and_group_also_that_of_a_retry_topic(code: CODE) -> None:
    subscribe = frozenset({Action.SUB})
    mine = Need(Kind.GROUP, "mine", subscribe)
    assert needs(code, {"topic": "t", "consumerGroup": "mine"}) == [Need(Kind.TOPIC, "t", subscribe), mine]
    other = needs(code, {"topic": "%RETRY%other", "consumerGroup": "mine"})
    assert other == [Need(Kind.GROUP, "other", subscribe), mine]
    assert needs(code) == [Need(Kind.TOPIC, "", subscribe), Need(Kind.GROUP, "", subscribe)]


SUBSCRIBE = frozenset({Action.SUB})
READ = frozenset({Action.SUB, Action.GET})
PUBLISH = frozenset({Action.PUB})

FOR_EVERYBODY = {"TBW102", "BenchmarkTest", "SELF_TEST_TOPIC"}
"""Topics of every broker that hold no messages of others."""


def test_reading_an_internal_topic_needs_an_administrator() -> None:
    internal = {*SYSTEM_TOPICS, "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_c", "c_REPLY_TOPIC"} - FOR_EVERYBODY
    for name in internal:
        assert is_internal_topic(name), name
        assert topic_needs(name, SUBSCRIBE) == topic_needs(name, READ) == (ADMINISTRATOR,)
    for name in (*FOR_EVERYBODY, "orders", "%RETRY%g", "%DLQ%g", "XSCHEDULE_TOPIC_XXXX"):
        assert not is_internal_topic(name), name
    account = parse_rules({"accounts": [{"accessKey": "account-1", "secretKey": "secret-1", **ANYTHING}]}).accounts
    admin = parse_rules({"accounts": [{"accessKey": "account-1", "secretKey": "secret-1", "admin": "true"}]}).accounts
    assert [one["account-1"].allows(ADMINISTRATOR) for one in (account, admin)] == [False, True]


ANYTHING = {"defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "PUB|SUB"}


def test_reading_dead_letters_needs_their_topic_and_their_group() -> None:
    both = (Need(Kind.TOPIC, "%DLQ%g", SUBSCRIBE), Need(Kind.GROUP, "g", SUBSCRIBE))
    assert topic_needs("%DLQ%g", SUBSCRIBE) == both
    assert topic_needs("%DLQ%g", PUBLISH) == (Need(Kind.TOPIC, "%DLQ%g", PUBLISH),)


@pytest.mark.parametrize(
    ("topic", "properties", "expected"),
    [
        ("t", {"REAL_TOPIC": "u", "RETRY_TOPIC": "u"}, [("Topic", "t")]),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "t"}, [("Topic", "t")]),
        ("rmq_sys_wheel_timer", {"REAL_TOPIC": "t"}, [("Topic", "t")]),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "t"}, [("Topic", "t")]),
        ("TRANS_CHECK_MAX_TIME_TOPIC", {"REAL_TOPIC": "t"}, [("Topic", "t")]),
        ("SCHEDULE_TOPIC_XXXX", {}, [("Cluster", "")]),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}, [("Cluster", "")]),
        ("RMQ_SYS_TRACE_TOPIC", {}, [("Cluster", "")]),
        ("%RETRY%g", {}, [("Group", "g")]),
        ("%RETRY%g", {"RETRY_TOPIC": "t"}, [("Group", "g"), ("Topic", "t")]),
        ("%RETRY%g", {"RETRY_TOPIC": "SCHEDULE_TOPIC_XXXX"}, [("Group", "g"), ("Cluster", "")]),
        ("%RETRY%g", {"RETRY_TOPIC": "%RETRY%h"}, [("Group", "g"), ("Group", "h")]),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "%RETRY%g", "RETRY_TOPIC": "t"}, [("Group", "g"), ("Topic", "t")]),
        ("%DLQ%g", {"RETRY_TOPIC": "t"}, [("Topic", "%DLQ%g"), ("Group", "g"), ("Topic", "t")]),
        ("%DLQ%g", {"DLQ_ORIGIN_TOPIC": "t"}, [("Topic", "%DLQ%g"), ("Group", "g"), ("Topic", "t")]),
    ],
)
def test_a_record_needs_the_topic_that_it_is_for(
    topic: str, properties: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert [(one.kind, one.name) for one in record_needs(topic, properties, SUBSCRIBE)] == expected


def test_an_end_of_a_transaction_needs_the_right_to_publish_to_its_topic() -> None:
    real = {"REAL_TOPIC": "t", "RETRY_TOPIC": "u"}
    assert record_needs("RMQ_SYS_TRANS_HALF_TOPIC", real, PUBLISH) == (Need(Kind.TOPIC, "t", PUBLISH),)
    to_retry = record_needs("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "%RETRY%g", "RETRY_TOPIC": "u"}, PUBLISH)
    assert to_retry == (Need(Kind.GROUP, "g", SUBSCRIBE),)


def test_progress_of_a_group_needs_every_topic_that_is_named_or_listed() -> None:
    get = frozenset({Action.GET})
    found = needs(CODE.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "a", "topicList": "b;%RETRY%h;;c"})
    topics = [Need(Kind.TOPIC, "a", get), Need(Kind.TOPIC, "b", get), Need(Kind.GROUP, "h", get)]
    assert found == [Need(Kind.GROUP, "g", get), *topics, Need(Kind.TOPIC, "c", get)]
    assert needs(CODE.GET_CONSUME_STATS, {"consumerGroup": "g"}) == [Need(Kind.GROUP, "g", get)]


def test_heartbeats_and_locks_need_what_their_bodies_name() -> None:
    consumer = ConsumerData(group_name="g", subscription_data_set=[SubscriptionData(topic="t")])
    body = encode_body(HeartbeatData(consumer_data_set=[consumer, msgspec.structs.replace(consumer, group_name="h")]))
    found = needs(CODE.HEART_BEAT, body=body)
    assert [(one.kind, one.name) for one in found] == [("Group", "g"), ("Topic", "t"), ("Group", "h"), ("Topic", "t")]
    queues = [MessageQueueBody(topic=one, queue_id=number) for one in ("t", "%RETRY%g") for number in (0, 1)]
    lock = encode_body(LockBatchRequestBody(consumer_group="g", mq_set=queues))
    assert {(one.kind, one.name) for one in needs(CODE.LOCK_BATCH_MQ, body=lock)} == {("Group", "g"), ("Topic", "t")}
    with pytest.raises(RemotingError):
        needs(CODE.HEART_BEAT, body=b"[")


def test_requests_about_users_are_3001_to_3010() -> None:
    of_users = {code for code, row in ROWS.items() if row.of_users}
    assert of_users == set(range(3001, 3011))
    assert all(ROWS[one].audience is Audience.ADMIN for one in of_users)
