"""JSON bodies: RocketMQ's dialect, and bytes that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting import fastjson
from rocketflow.remoting.bodies import (
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    MessageQueue,
    MessageQueueBody,
    TopicRouteData,
    decode_body,
    encode_body,
    queue_map,
)
from rocketflow.remoting.errors import BodyError
from rocketflow_store.spi.table_rows import DataVersion, TopicConfig

QUEUE_KEY = (("brokerName", "b"), ("queueId", 0), ("topic", "T"))
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    PLAIN | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{a:1,'b':\"c\",$d_1:null}", {"a": 1, "b": "c", "$d_1": None}),
        ('{{"brokerName":"b","queueId":0,"topic":"T"}:5}', {QUEUE_KEY: 5}),
        ('{"a":[{"x":1}],"b":{"$ref":"$.a[0]"}}', {"a": [{"x": 1}], "b": {"x": 1}}),
        ("'it''s'", None),
        ("'it\\'s \"so\"'", 'it\'s "so"'),
        (" [ 1 , 2.5 , -3e2 , true ] ", [1, 2.5, -300.0, True]),
        ("{}", {}),
    ],
)
def test_fastjson_is_read(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(BodyError):
            fastjson.loads(text.encode())
    else:
        assert fastjson.loads(text.encode()) == expected


@given(VALUES)
def test_standard_json_is_read_as_json(value: Any) -> None:
    if '"$ref"' not in json.dumps(value):
        assert fastjson.loads(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", '{"a"}', '{"a":}', "[1,]", '{"a":1,}', '"a', "nul", "1" * 21, "{} x", '{{"a":[]}:1}', "{1:2"),
        *('{"$ref":"$"}', '{"a":{"$ref":"$.b"}}', '{"a":{"$ref":".."}}', '{"a":{"$ref":"$.a"}}', '{"a":{"$ref":"x"}}'),
        '{"a":{"$ref":"$.b"},"b":{"$ref":"$.a"}}',
        "[" * 65 + "]" * 65,
        b"\xff",
    ],
)
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(BodyError):
        fastjson.loads(text if isinstance(text, bytes) else text.encode())


@given(st.binary(max_size=60) | st.text(alphabet="{}[]:,\"$ref.0a\\'", max_size=40).map(str.encode))
def test_any_bytes_give_a_value_or_a_body_error(data: bytes) -> None:
    for body in (HeartbeatData, TopicRouteData, LockBatchRequestBody, DataVersion):
        try:
            decode_body(data, body)
        except BodyError:
            continue


def test_a_heartbeat_with_a_shared_subscription_is_read() -> None:
    text = (
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"T","codeSet":["12"],'
        '"tagsSet":null,"classFilterMode":false}]},{"groupName":"h","subscriptionDataSet":'
        '[{"$ref":"$.consumerDataSet[0].subscriptionDataSet[0]"}]}],"unknown":{}}'
    )
    heartbeat = decode_body(text.encode(), HeartbeatData)
    first, second = heartbeat.consumer_data_set
    assert (first.group_name, second.group_name) == ("g", "h")
    assert first.subscription_data_set == second.subscription_data_set
    assert first.subscription_data_set[0].code_set == [12]


def test_bodies_are_written_as_fastjson_writes_them() -> None:
    queue = MessageQueueBody(broker_name="broker-a", topic="TopicA")
    assert encode_body(queue) == b'{"brokerName":"broker-a","queueId":0,"topic":"TopicA"}'
    assert encode_body(LockBatchResponseBody(lock_ok_mq_set=[queue])).startswith(b'{"lockOKMQSet":[{"brokerName"')
    assert encode_body(TopicConfig(topic_name="T", attributes={})) == (
        b'{"attributes":{},"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG","topicName":"T",'
        b'"topicSysFlag":0,"writeQueueNums":16}'
    )
    table = {"offsetTable": queue_map({MessageQueue("T", "b", 0): 5})}
    assert encode_body(table) == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert fastjson.loads(encode_body(table)) == {"offsetTable": {QUEUE_KEY: 5}}
