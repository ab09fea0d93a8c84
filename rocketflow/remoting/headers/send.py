"""Headers of sends, replies and recalls."""

from __future__ import annotations

from rocketflow.remoting.headers.header import (
    Header,
    Int32,
    Int64,
    RpcRequestHeader,
    TopicRequestHeader,
    with_short_names,
)


class SendMessageRequestHeader(TopicRequestHeader, kw_only=True):
    """10 SEND_MESSAGE, 324 SEND_REPLY_MESSAGE; the codes 310, 320 and 325 name each field by one letter."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: Int32 | None = None


SendMessageRequestHeaderV2 = with_short_names(
    SendMessageRequestHeader,
    {
        "producer_group": "a",
        "topic": "b",
        "default_topic": "c",
        "default_topic_queue_nums": "d",
        "queue_id": "e",
        "sys_flag": "f",
        "born_timestamp": "g",
        "flag": "h",
        "properties": "i",
        "reconsume_times": "j",
        "unit_mode": "k",
        "max_reconsume_times": "l",
        "batch": "m",
        "bname": "n",
    },
)


class SendMessageResponseHeader(Header, kw_only=True):
    """Answer a send."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


class ConsumerSendMsgBackRequestHeader(RpcRequestHeader, kw_only=True):
    """36 CONSUMER_SEND_MSG_BACK."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None


class ReplyMessageRequestHeader(TopicRequestHeader, kw_only=True):
    """326 PUSH_REPLY_MESSAGE_TO_CLIENT."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64


class RecallMessageRequestHeader(TopicRequestHeader, kw_only=True):
    """370 RECALL_MESSAGE."""

    producer_group: str | None = None
    topic: str
    recall_handle: str


class RecallMessageResponseHeader(Header, kw_only=True):
    """Answer 370 RECALL_MESSAGE."""

    msg_id: str
