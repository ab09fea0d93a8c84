"""Headers of requests to a NameServer."""

from __future__ import annotations

from rocketflow.remoting.headers.header import Header, Int32, Int64, TopicRequestHeader


class GetRouteInfoRequestHeader(TopicRequestHeader, kw_only=True):
    """105 GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBrokerRequestHeader(Header, kw_only=True):
    """103 REGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 | None = None


class RegisterBrokerResponseHeader(Header, kw_only=True):
    """Answer 103 REGISTER_BROKER."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnRegisterBrokerRequestHeader(Header, kw_only=True):
    """104 UNREGISTER_BROKER."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class BrokerHeartbeatRequestHeader(Header, kw_only=True):
    """904 BROKER_HEARTBEAT."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class QueryDataVersionRequestHeader(Header, kw_only=True):
    """322 QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(Header, kw_only=True):
    """Answer 322 QUERY_DATA_VERSION."""

    changed: bool


class GetBrokerMemberGroupRequestHeader(Header, kw_only=True):
    """901 GET_BROKER_MEMBER_GROUP."""

    cluster_name: str
    broker_name: str


class GetTopicsByClusterRequestHeader(Header, kw_only=True):
    """224 GET_TOPICS_BY_CLUSTER."""

    cluster: str


class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader, kw_only=True):
    """216 DELETE_TOPIC_IN_NAMESRV."""

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequestHeader(TopicRequestHeader, kw_only=True):
    """217 REGISTER_TOPIC_IN_NAMESRV."""

    topic: str


class PutKVConfigRequestHeader(Header, kw_only=True):
    """100 PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequestHeader(Header, kw_only=True):
    """101 GET_KV_CONFIG."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header, kw_only=True):
    """Answer 101 GET_KV_CONFIG."""

    value: str | None = None


class DeleteKVConfigRequestHeader(Header, kw_only=True):
    """102 DELETE_KV_CONFIG."""

    namespace: str
    key: str


class GetKVListByNamespaceRequestHeader(Header, kw_only=True):
    """219 GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class WipeWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """205 WIPE_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """Answer 205 WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddWritePermOfBrokerRequestHeader(Header, kw_only=True):
    """327 ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, kw_only=True):
    """Answer 327 ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32
