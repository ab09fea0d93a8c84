"""Checks of messages and groups before anything is sent, without I/O.

RocketMQ's source: client/Validators.java, common/topic/TopicValidator.java, common/message/MessageBatch.java.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rocketflow.client.produce.errors import BadMessageError

if TYPE_CHECKING:
    from rocketflow.client.messages import Message

RETRY_PREFIX: Final = "%RETRY%"
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_MAX_NAME: Final = 127
_MAX_GROUP: Final = 120
_REFUSED_TOPICS: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)


def check_group(group: str) -> None:
    """Raise BadMessageError for a name that no producer group may have."""
    _check_name("producer group", group, _MAX_GROUP)
    if group == "DEFAULT_PRODUCER":
        raise BadMessageError("producer group 'DEFAULT_PRODUCER' is RocketMQ's own; choose a name for the application")


@lru_cache(4096)
def check_topic(topic: str) -> None:
    """Raise BadMessageError for a topic that clients may not send to."""
    _check_name("topic", topic, _MAX_NAME if not topic.startswith("%") else 255)
    if topic in _REFUSED_TOPICS:
        raise BadMessageError(f"topic {topic!r} is the broker's own; clients may not send to it")


def check_message(message: Message, max_size: int) -> None:
    """Raise BadMessageError for a message that a broker refuses; `max_size` is the limit of its body in bytes."""
    check_topic(message.topic)
    _check_body(message, max_size)
    if message.is_delayed:
        _check_delay(message)


def _check_body(message: Message, max_size: int) -> None:
    size = len(message.body)
    if not size:
        raise BadMessageError(f"topic {message.topic!r}: the message has no body; RocketMQ stores none without")
    if size > max_size:
        raise BadMessageError(
            f"topic {message.topic!r}: the message has {size:,} bytes, at most {max_size:,} are allowed: raise "
            "max_message_size here and maxMessageSize at the broker"
        )


def check_batch(messages: Sequence[Message], max_size: int) -> str:
    """Return the topic of messages that may be one batch, else raise BadMessageError."""
    if not messages:
        raise BadMessageError("a batch needs at least one message")
    topic = messages[0].topic
    check_topic(topic)
    for one in messages:
        _check_body(one, max_size)
        if one.topic != topic:
            raise BadMessageError(f"the messages of a batch have one topic: {topic!r} and {one.topic!r} were given")
        if one.is_delayed:
            raise BadMessageError(f"topic {topic!r}: delayed messages cannot be sent in a batch; send each by itself")
    if topic.startswith(RETRY_PREFIX):
        raise BadMessageError(f"topic {topic!r}: batches to retry topics are refused by brokers")
    return topic


def _check_name(kind: str, name: str, longest: int) -> None:
    if not name:
        raise BadMessageError(f"{kind}: a name is needed")
    if len(name) > longest:
        raise BadMessageError(f"{kind} {name[:20]!r}... has {len(name)} characters, at most {longest} are allowed")
    if _NAME.fullmatch(name) is None:
        raise BadMessageError(f"{kind} {name!r}: only letters, digits, %, |, _ and - are allowed")


def _check_delay(message: Message) -> None:
    given = [message.delay_level, message.delay_s, message.delay_ms, message.deliver_at_ms]
    if sum(map(bool, given)) != 1 or min(given) < 0:
        raise BadMessageError(
            f"topic {message.topic!r}: set one of delay_level, delay_s, delay_ms and deliver_at_ms, to a number above 0"
        )
