"""Retries that a client sends itself, as an ordinary message to `%RETRY%group`, converted as by a broker.

Ordered consumers do so, and others after a failed send-back. The client names how often the message was consumed
(reconsumeTimes, RECONSUME_TIME), its own limit (MAX_RECONSUME_TIMES) and the level (DELAY). Beyond the limit the
message goes to queue 0 of `%DLQ%group` with DELAY = -1.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rocketflow_store.delivery.requeue.retry_topics import (
    DLQ_QUEUE_NUMS,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_RECONSUME_TIME,
    dlq_topic,
    group_of_retry_topic,
)
from rocketflow_store.model.property_names import PROPERTY_DELAY
from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketflow_store.engine.message_store import MessageStore
    from rocketflow_store.model.message import Message
    from rocketflow_store.model.results import PutMessageResult

_INT32: Final = re.compile("-?[0-9]{1,9}")


def put_client_resend(store: MessageStore, message: Message, *, consumed_in_order: bool = False) -> PutMessageResult:
    """Store a client's message, unchanged or as a dead letter; raise StoreConfigError for a wrong group name."""
    group = group_of_retry_topic(message.topic)
    if group is None:
        return store.put_message(message)
    config = store.config_files.subscription_groups.of(group)
    converted = converted_resend(message, group, config, consumed_in_order=consumed_in_order)
    store.ensure_topic(converted.topic, DLQ_QUEUE_NUMS if converted.topic != message.topic else config.retry_queue_nums)
    return store.put_message(converted)


def converted_resend(
    message: Message, group: str, config: SubscriptionGroupConfig, *, consumed_in_order: bool = False
) -> Message:
    """Return the message to store for one that a client sends to a group's retry topic.

    `consumed_in_order`: a consumer of the group holds queue locks now; then its retries are dead letters.
    """
    times = message.reconsume_times or _number(message.properties, PROPERTY_RECONSUME_TIME, 0)
    most = _number(message.properties, PROPERTY_MAX_RECONSUME_TIMES, config.retry_max_times)
    if times > most or consumed_in_order:
        return replace(
            message,
            topic=dlq_topic(group),
            queue_id=0,
            properties={**message.properties, PROPERTY_DELAY: "-1"},
            reconsume_times=times,
            delay_level=0,
            deliver_at_ms=0,
        )
    level = message.delay_level or _number(message.properties, PROPERTY_DELAY, 0)
    return replace(message, reconsume_times=times, delay_level=max(level, 0))


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, "")
    return int(text) if _INT32.fullmatch(text) else default
