"""Headers of pulls and queries of messages."""

from __future__ import annotations

import msgspec

from rocketflow.remoting.headers.header import Header, Int32, Int64, TopicRequestHeader


class PullMessageRequestHeader(TopicRequestHeader, kw_only=True):
    """Read messages of a queue: 11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    proxy_froward_client_id: str | None = None


class PullMessageResponseHeader(Header, kw_only=True):
    """Answer 11 PULL_MESSAGE.

    The last field is RocketFlow's: messages before `next_begin_offset` that the broker skipped because they are damaged
    or missing. Each line has queue offsets, such as `5,9-12`, a space and the reason. RocketMQ's clients ignore it.
    """

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
    skipped_messages: str | None = None


class QueryMessageRequestHeader(TopicRequestHeader, kw_only=True):
    """12 QUERY_MESSAGE."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64


class UniqueKeyQueryRequestHeader(QueryMessageRequestHeader, kw_only=True):
    """12 QUERY_MESSAGE by UNIQ_KEY."""

    unique_key_query: bool = msgspec.field(default=True, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponseHeader(Header, kw_only=True):
    """Answer 12 QUERY_MESSAGE."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageRequestHeader(Header, kw_only=True):
    """33 VIEW_MESSAGE_BY_ID."""

    topic: str | None = None
    offset: Int64


class QueryConsumeQueueRequestHeader(TopicRequestHeader, kw_only=True):
    """321 QUERY_CONSUME_QUEUE."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None
