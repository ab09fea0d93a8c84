"""Headers of usual requests, to be sent to a broker that a test runs."""

from __future__ import annotations

from typing import Final

from rocketflow.remoting.headers.admin import CreateTopicRequestHeader
from rocketflow.remoting.headers.pull import PullMessageRequestHeader
from rocketflow.remoting.headers.send import SendMessageRequestHeader

GROUP: Final = "g"


def send_header(topic: str = "t", queue_id: int = 0, **changes: object) -> SendMessageRequestHeader:
    """Return the header of a send; the topic is made by its first message."""
    values: dict[str, object] = {
        "producer_group": "p",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": queue_id,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "properties": "",
        **changes,
    }
    return SendMessageRequestHeader(**values)  # type: ignore[arg-type]


def pull_header(topic: str = "t", queue_id: int = 0, offset: int = 0, **changes: object) -> PullMessageRequestHeader:
    """Return the header of a pull that brings its own subscription and does not wait."""
    values: dict[str, object] = {
        "consumer_group": GROUP,
        "topic": topic,
        "queue_id": queue_id,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 0,
        "subscription": "*",
        "sub_version": 0,
        **changes,
    }
    return PullMessageRequestHeader(**values)  # type: ignore[arg-type]


def topic_header(topic: str, queues: int = 4, perm: int = 6) -> CreateTopicRequestHeader:
    """Return the header of a request that makes a topic."""
    return CreateTopicRequestHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=0,
        order=False,
    )
