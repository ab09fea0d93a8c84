"""Properties that a manual requeue adds to a message, and those that it drops.

A requeued message is a new one of its target topic: body, flag, bornTimestamp, bornHost, keys, tags, UNIQ_KEY and the
sender's own properties stay; reconsumeTimes is 0. The five REQUEUE_ properties name the run and the original record.
"""

from __future__ import annotations

from typing import Final

from rocketflow_store.delivery.requeue.retry_topics import (
    PROPERTY_DLQ_ORIGIN_MESSAGE_ID,
    PROPERTY_DLQ_ORIGIN_TOPIC,
    PROPERTY_MAX_RECONSUME_TIMES,
    PROPERTY_ORIGIN_MESSAGE_ID,
    PROPERTY_RECONSUME_TIME,
    PROPERTY_RETRY_TOPIC,
)
from rocketflow_store.model.topic_names import DLQ_PREFIX, RETRY_PREFIX

PROPERTY_REQUEUE_RUN_ID: Final = "REQUEUE_RUN_ID"
PROPERTY_REQUEUE_ORIGIN_TOPIC: Final = "REQUEUE_ORIGIN_TOPIC"
PROPERTY_REQUEUE_ORIGIN_QUEUE_ID: Final = "REQUEUE_ORIGIN_QUEUE_ID"
PROPERTY_REQUEUE_ORIGIN_QUEUE_OFFSET: Final = "REQUEUE_ORIGIN_QUEUE_OFFSET"
PROPERTY_REQUEUE_ORIGIN_MSG_ID: Final = "REQUEUE_ORIGIN_MSG_ID"

DELIVERED: Final = (
    *("DELAY", "REAL_TOPIC", "REAL_QID"),
    *("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"),
    *("TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_DEL_UNIQKEY"),
)
"""Properties of a delivered message about its delay or time: with them it would wait again."""

QUARANTINED: Final = (
    *("ORIGIN_TOPIC", "ORIGIN_QUEUE_ID", "ORIGIN_QUEUE_OFFSET", "ORIGIN_MSG_ID", "QUALITY_VIOLATIONS"),
    *("QUALITY_SUITE", "QUALITY_SUITE_VERSION", "QUALITY_REASON", "QUALITY_PROPERTIES_LEFT_OUT"),
)
"""Properties that a quarantined row has of itself, as far as they fit."""

BOOKKEEPING: Final = (
    *DELIVERED,
    # failed attempts: the next failure counts as the first
    *(PROPERTY_RETRY_TOPIC, PROPERTY_ORIGIN_MESSAGE_ID, PROPERTY_RECONSUME_TIME, PROPERTY_MAX_RECONSUME_TIMES),
    *(PROPERTY_DLQ_ORIGIN_TOPIC, PROPERTY_DLQ_ORIGIN_MESSAGE_ID, "CONSUME_START_TIME", "WAIT"),
    # the pull or pop that returned it
    *("MIN_OFFSET", "MAX_OFFSET", "POP_CK", "1ST_POP_TIME"),
    # the checks that it failed
    *QUARANTINED,
    *("QUALITY_TAGS_LEFT_OUT", "QUALITY_KEYS_LEFT_OUT"),
    # a finished transaction, other queues
    *("TRAN_MSG", "__transactionId__", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET"),
    *("CHECK_IMMUNITY_TIME_IN_SECONDS", "INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET"),
)
"""Properties that a requeued message does not keep."""

_BY_FAILURE: Final = (PROPERTY_DLQ_ORIGIN_TOPIC, PROPERTY_RETRY_TOPIC)
_BY_QUARANTINE: Final = ("ORIGIN_TOPIC",)


def origin_topic_properties(from_topic: str) -> tuple[str, ...]:
    """Return the properties that may name the topic of a message before `from_topic`; the first existing one counts."""
    if from_topic.startswith((DLQ_PREFIX, RETRY_PREFIX)):
        return _BY_FAILURE + _BY_QUARANTINE
    return _BY_QUARANTINE + _BY_FAILURE
