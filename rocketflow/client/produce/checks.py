"""Checks of messages and groups before anything is sent, without I/O.

RocketMQ's source: client/Validators.java, common/topic/TopicValidator.java, common/message/MessageBatch.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocketflow.client.produce.errors import BadMessageError
from rocketflow_store.spi.messages import MessageRejectedError
from rocketflow_store.spi.names import RETRY_PREFIX, StoreConfigError, check_send_topic, validate_group

if TYPE_CHECKING:
    from rocketflow_store.spi.messages import Message


def check_group(group: str) -> None:
    """Raise BadMessageError for a name that no producer group may have."""
    try:
        validate_group(group)
    except StoreConfigError as error:
        raise BadMessageError(f"producer {error}") from None
    if group == "DEFAULT_PRODUCER":
        raise BadMessageError("producer group 'DEFAULT_PRODUCER' is RocketMQ's own; choose a name for the application")


def check_topic(topic: str) -> None:
    """Raise BadMessageError for a topic that clients may not send to."""
    try:
        check_send_topic(topic)
    except MessageRejectedError as error:
        raise BadMessageError(error.why) from None


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
    if (
        message.queue_id is not None
        or message.born_timestamp is not None
        or message.born_host
        or message.sys_flag
        or message.reconsume_times
        or message.prepared_transaction_offset
    ):
        raise BadMessageError(
            f"topic {message.topic!r}: queue_id, sys_flag, reconsume_times and what was born where are set by a "
            "broker itself, and by programs only in a store: choose the queue by `to`"
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


def _check_delay(message: Message) -> None:
    given = [message.delay_level, message.delay_s, message.delay_ms, message.deliver_at_ms]
    if sum(map(bool, given)) != 1 or min(given) < 0:
        raise BadMessageError(
            f"topic {message.topic!r}: set one of delay_level, delay_s, delay_ms and deliver_at_ms, to a number above 0"
        )
