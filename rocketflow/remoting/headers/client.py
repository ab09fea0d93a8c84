"""Headers of requests by which broker and clients know each other."""

from __future__ import annotations

import msgspec

from rocketflow.remoting.headers.header import Int32, RpcRequestHeader, TopicRequestHeader


class HeartbeatRequestHeader(RpcRequestHeader, kw_only=True):
    """34 HEART_BEAT."""


class UnregisterClientRequestHeader(RpcRequestHeader, kw_only=True):
    """35 UNREGISTER_CLIENT."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class GetConsumerListByGroupRequestHeader(RpcRequestHeader, kw_only=True):
    """38 GET_CONSUMER_LIST_BY_GROUP."""

    consumer_group: str


class NotifyConsumerIdsChangedRequestHeader(RpcRequestHeader, kw_only=True):
    """40 NOTIFY_CONSUMER_IDS_CHANGED."""

    consumer_group: str


class LockBatchMqRequestHeader(RpcRequestHeader, kw_only=True):
    """41 LOCK_BATCH_MQ."""


class UnlockBatchMqRequestHeader(RpcRequestHeader, kw_only=True):
    """42 UNLOCK_BATCH_MQ."""


class GetConsumerRunningInfoRequestHeader(RpcRequestHeader, kw_only=True):
    """307 GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyResultRequestHeader(TopicRequestHeader, kw_only=True):
    """309 CONSUME_MESSAGE_DIRECTLY."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


class GetConsumerStatusRequestHeader(TopicRequestHeader, kw_only=True):
    """223 INVOKE_BROKER_TO_GET_CONSUMER_STATUS."""

    topic: str
    group: str
    client_addr: str | None = None
