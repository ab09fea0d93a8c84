"""Headers of requests about offsets of queues and of groups."""

from __future__ import annotations

from rocketflow.remoting.headers.header import Header, Int32, Int64, RpcRequestHeader, TopicRequestHeader


class QueryConsumerOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """14 QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetResponseHeader(Header, kw_only=True):
    """Answer 14 QUERY_CONSUMER_OFFSET."""

    offset: Int64


class UpdateConsumerOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """15 UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """29 SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    boundary_type: str | None = None


class SearchOffsetResponseHeader(Header, kw_only=True):
    """Answer 29 SEARCH_OFFSET_BY_TIMESTAMP."""

    offset: Int64


class GetMaxOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """30 GET_MAX_OFFSET."""

    topic: str
    queue_id: Int32
    committed: bool = True


class GetMaxOffsetResponseHeader(Header, kw_only=True):
    """Answer 30 GET_MAX_OFFSET."""

    offset: Int64


class GetMinOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """31 GET_MIN_OFFSET."""

    topic: str
    queue_id: Int32


class GetMinOffsetResponseHeader(Header, kw_only=True):
    """Answer 31 GET_MIN_OFFSET."""

    offset: Int64


class GetEarliestMsgStoretimeRequestHeader(TopicRequestHeader, kw_only=True):
    """32 GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32


class GetEarliestMsgStoretimeResponseHeader(Header, kw_only=True):
    """Answer 32 GET_EARLIEST_MSG_STORETIME."""

    timestamp: Int64


class ResetOffsetRequestHeader(TopicRequestHeader, kw_only=True):
    """222 INVOKE_BROKER_TO_RESET_OFFSET."""

    group: str
    topic: str
    queue_id: Int32 = 0
    offset: Int64 | None = None
    timestamp: Int64
    is_force: bool


class CloneGroupOffsetRequestHeader(RpcRequestHeader, kw_only=True):
    """314 CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffsetHeader(TopicRequestHeader, kw_only=True):
    """308 QUERY_CORRECTION_OFFSET."""

    filter_groups: str | None = None
    compare_group: str
    topic: str
