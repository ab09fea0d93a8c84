"""Names of topics, groups and properties, their checks, and permissions: the standard library alone."""

from __future__ import annotations

from rocketflow_store.model.errors import StoreConfigError
from rocketflow_store.model.property_names import PROPERTY_KEYS, PROPERTY_SHARDING_KEY, PROPERTY_TAGS, PROPERTY_UNIQ_KEY
from rocketflow_store.model.topic_names import (
    CHECK_RESULTS_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    LMQ_PREFIX,
    MAX_GROUP_LENGTH,
    MAX_QUEUE_NUMS,
    MAX_TOPIC_LENGTH,
    PERM_INHERIT,
    PERM_READ,
    PERM_READ_WRITE,
    PERM_WRITE,
    RETRY_PREFIX,
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
    "DLQ_PREFIX",
    "HALF_TOPIC",
    "LMQ_PREFIX",
    "MAX_GROUP_LENGTH",
    "MAX_QUEUE_NUMS",
    "MAX_TOPIC_LENGTH",
    "PERM_INHERIT",
    "PERM_READ",
    "PERM_READ_WRITE",
    "PERM_WRITE",
    "PROPERTY_KEYS",
    "PROPERTY_SHARDING_KEY",
    "PROPERTY_TAGS",
    "PROPERTY_UNIQ_KEY",
    "RETRY_PREFIX",
    "SCHEDULE_TOPIC",
    "TIMER_TOPIC",
    "StoreConfigError",
    "check_send_topic",
    "is_directory_name",
    "is_send_refused",
    "is_system_topic",
    "validate_group",
    "validate_topic",
]
