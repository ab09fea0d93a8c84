"""Headers of an operator's requests to a broker."""

from __future__ import annotations

from rocketflow.remoting.headers.header import Header, Int32, RpcRequestHeader, TopicRequestHeader


class CreateTopicRequestHeader(TopicRequestHeader, kw_only=True):
    """17 UPDATE_AND_CREATE_TOPIC."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool
    attributes: str | None = None
    force: bool | None = None


class CreateTopicListRequestHeader(RpcRequestHeader, kw_only=True):
    """18 UPDATE_AND_CREATE_TOPIC_LIST."""


class DeleteTopicRequestHeader(TopicRequestHeader, kw_only=True):
    """215 DELETE_TOPIC_IN_BROKER."""

    topic: str


class GetTopicConfigRequestHeader(TopicRequestHeader, kw_only=True):
    """351 GET_TOPIC_CONFIG."""

    topic: str


class GetTopicStatsInfoRequestHeader(TopicRequestHeader, kw_only=True):
    """202 GET_TOPIC_STATS_INFO."""

    topic: str


class DeleteSubscriptionGroupRequestHeader(RpcRequestHeader, kw_only=True):
    """207 DELETE_SUBSCRIPTIONGROUP."""

    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False  # RocketMQ 4's name of the same


class GetSubscriptionGroupConfigRequestHeader(RpcRequestHeader, kw_only=True):
    """352 GET_SUBSCRIPTIONGROUP_CONFIG."""

    group: str


class UpdateGroupForbiddenRequestHeader(TopicRequestHeader, kw_only=True):
    """353 UPDATE_AND_GET_GROUP_FORBIDDEN."""

    group: str
    topic: str
    readable: bool | None = None


class GetConsumerConnectionListRequestHeader(RpcRequestHeader, kw_only=True):
    """203 GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class GetProducerConnectionListRequestHeader(RpcRequestHeader, kw_only=True):
    """204 GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str


class GetAllProducerInfoRequestHeader(Header, kw_only=True):
    """328 GET_ALL_PRODUCER_INFO."""


class GetConsumeStatsRequestHeader(TopicRequestHeader, kw_only=True):
    """208 GET_CONSUME_STATS."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetConsumeStatsInBrokerHeader(Header, kw_only=True):
    """317 GET_BROKER_CONSUME_STATS."""

    is_order: bool


class QueryTopicConsumeByWhoRequestHeader(TopicRequestHeader, kw_only=True):
    """300 QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str


class QueryTopicsByConsumerRequestHeader(RpcRequestHeader, kw_only=True):
    """343 QUERY_TOPICS_BY_CONSUMER."""

    group: str


class QuerySubscriptionByConsumerRequestHeader(TopicRequestHeader, kw_only=True):
    """345 QUERY_SUBSCRIPTION_BY_CONSUMER."""

    group: str
    topic: str | None = None


class QueryConsumeTimeSpanRequestHeader(TopicRequestHeader, kw_only=True):
    """303 QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class ViewBrokerStatsDataRequestHeader(Header, kw_only=True):
    """315 VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class GetBrokerConfigResponseHeader(Header, kw_only=True):
    """Answer 26 GET_BROKER_CONFIG."""

    version: str
