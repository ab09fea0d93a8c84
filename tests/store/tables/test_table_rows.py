"""Rows of RocketMQ's tables: one codec for files, requests and answers, which keeps unknown members."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketflow.remoting import bodies
from rocketflow_store.tables.data_version import DataVersion
from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig
from rocketflow_store.tables.table_row import ConfigRow, TableRow, entry_of, json_of, row_of
from rocketflow_store.tables.topic_config import BATCH_CQ, QUEUE_TYPE_ATTRIBUTE, TopicConfig

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3)
TOPICS = st.builds(
    TopicConfig,
    topic_name=st.text(max_size=8),
    read_queue_nums=INT32,
    write_queue_nums=INT32,
    perm=INT32,
    order=st.booleans(),
    topic_filter_type=st.text(max_size=8),
    topic_sys_flag=INT32,
    attributes=TEXTS,
)
GROUPS = st.builds(
    SubscriptionGroupConfig,
    group_name=st.text(max_size=8),
    consume_enable=st.booleans(),
    retry_max_times=INT32,
    group_retry_policy=st.fixed_dictionaries({"type": st.text(max_size=5)}),
    broker_id=st.integers(-(1 << 63), (1 << 63) - 1),
    attributes=TEXTS,
)
JSON = st.recursive(st.none() | st.booleans() | INT32 | st.text(max_size=5), lambda one: st.lists(one, max_size=2))
UNKNOWN = st.dictionaries(st.text(max_size=8).map(lambda name: f"new {name}"), JSON, max_size=3)


@given(TOPICS | GROUPS, UNKNOWN)
def test_rows_and_their_unknown_members_come_back(row: ConfigRow, unknown: dict[str, Any]) -> None:
    entry = json.loads(json.dumps({**entry_of(row), **unknown}))
    found = row_of(type(row), entry)
    assert entry_of(found) == entry
    assert found.unknown == unknown
    assert msgspec.structs.replace(found, extra=msgspec.UNSET) == row
    body = bodies.encode_body(found)
    assert json.loads(body) == entry
    assert bodies.decode_body(body, type(row)) == found
    assert json.loads(msgspec.json.encode([json_of(found)])) == [entry]


@given(st.lists(TOPICS, max_size=3, unique_by=lambda one: one.topic_name))
def test_a_table_of_rows_is_read_in_one_step(rows: list[TopicConfig]) -> None:
    table = {one.topic_name: one for one in rows}
    wrapper = bodies.TopicConfigWrapper(data_version=DataVersion(3, 2, 1), topic_config_table=table)
    assert bodies.decode_body(bodies.encode_body(wrapper), bodies.TopicConfigWrapper) == wrapper


@pytest.mark.parametrize(
    ("kind", "entry", "expected"),
    [
        (TopicConfig, {}, TopicConfig()),
        (TopicConfig, {"perm": None, "order": None, "attributes": None}, TopicConfig()),
        (TopicConfig, {"perm": "4", "order": "TRUE", "readQueueNums": "3"}, TopicConfig("", 3, perm=4, order=True)),
        (TopicConfig, {"attributes": {"a": None, "b": "c"}}, TopicConfig(attributes={"b": "c"})),
        (SubscriptionGroupConfig, {"groupName": "g", "groupRetryPolicy": None}, SubscriptionGroupConfig("g")),
        (DataVersion, {"counter": "7"}, DataVersion(7)),
    ],
)
def test_missing_members_and_texts_are_read_as_by_fastjson(
    kind: type[TableRow], entry: dict[str, Any], expected: TableRow
) -> None:
    assert row_of(kind, entry) == expected


@pytest.mark.parametrize(
    "entry",
    [{"perm": "rw"}, {"perm": 1 << 31}, {"perm": True}, {"order": 3}, {"topicName": 4}, {"attributes": []}],
)
def test_a_wrong_member_is_named(entry: dict[str, Any]) -> None:
    [name] = entry
    with pytest.raises(ValueError, match=name):
        row_of(TopicConfig, entry)
    with pytest.raises(bodies.BodyError, match=name):
        bodies.decode_body(json.dumps(entry).encode(), TopicConfig)


def test_a_change_keeps_what_its_request_does_not_know() -> None:
    known = row_of(TopicConfig, {"topicName": "t", "perm": 4, "later": 1, "old": 2, "attributes": {"a": "b"}})
    asked = row_of(TopicConfig, {"topicName": "t", "later": 3, "attributes": {"+a": "c"}})
    found = asked.changing(known, {"a": "c"})
    assert entry_of(found) == {**entry_of(TopicConfig("t")), "attributes": {"a": "c"}, "later": 3, "old": 2}
    assert TopicConfig("t").changing(None, {}) == TopicConfig("t")
    assert found.with_attribute(QUEUE_TYPE_ATTRIBUTE, BATCH_CQ).is_batch_cq
