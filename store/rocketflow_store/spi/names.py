"""Names of topics, groups, properties and message ids, and their checks."""

from __future__ import annotations

from rocketflow_store.delivery.requeue.requeue_properties import DELIVERED, QUARANTINED, origin_topic_properties
from rocketflow_store.model.message_id import decode_offset_msg_id
from rocketflow_store.model.property_names import PROPERTY_KEYS, PROPERTY_SHARDING_KEY, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.topic_names import (
    CHECK_RESULTS_TOPIC,
    HALF_TOPIC,
    MAX_GROUP_LENGTH,
    MAX_QUEUE_NUMS,
    MAX_TOPIC_LENGTH,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    check_send_topic,
    is_directory_name,
    is_send_refused,
    is_system_topic,
    validate_group,
    validate_topic,
)

__all__ = [
    "CHECK_RESULTS_TOPIC",
    "DELIVERED",
    "HALF_TOPIC",
    "MAX_GROUP_LENGTH",
    "MAX_QUEUE_NUMS",
    "MAX_TOPIC_LENGTH",
    "PROPERTY_KEYS",
    "PROPERTY_SHARDING_KEY",
    "PROPERTY_TAGS",
    "PROPERTY_UNIQ_KEY",
    "QUARANTINED",
    "SCHEDULE_TOPIC",
    "TIMER_TOPIC",
    "check_send_topic",
    "decode_offset_msg_id",
    "is_directory_name",
    "is_send_refused",
    "is_system_topic",
    "origin_topic_properties",
    "validate_group",
    "validate_topic",
]
