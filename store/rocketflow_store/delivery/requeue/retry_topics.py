"""Names and properties of redelivery: retry and dead-letter topics, and the bookkeeping properties of messages."""

from __future__ import annotations

from typing import Final

from rocketflow_store.model.topic_names import DLQ_PREFIX, RETRY_PREFIX, validate_group

PROPERTY_RETRY_TOPIC: Final = "RETRY_TOPIC"
"""The topic from which a message was consumed when it first failed."""
PROPERTY_ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
"""The message id that it had then."""
PROPERTY_RECONSUME_TIME: Final = "RECONSUME_TIME"
PROPERTY_MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
PROPERTY_DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
PROPERTY_DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"

DLQ_QUEUE_NUMS: Final = 1
FIRST_RETRY_LEVEL: Final = 3
"""Delay level of the first retry; each later one waits one level longer."""


def retry_topic(group: str) -> str:
    """Return `%RETRY%group`; raise StoreConfigError if the group's name is not valid."""
    return RETRY_PREFIX + validate_group(group)


def dlq_topic(group: str) -> str:
    """Return `%DLQ%group`; raise StoreConfigError if the group's name is not valid."""
    return DLQ_PREFIX + validate_group(group)


def group_of_retry_topic(topic: str) -> str | None:
    """Return the group of a retry topic, None for another topic."""
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None
