"""Tables in RocketMQ's JSON: topics, and the offsets of groups."""

from __future__ import annotations

from rocketflow_store.metadata.config_files.subscription_groups import SubscriptionGroupConfig
from rocketflow_store.metadata.config_files.topics import (
    BATCH_CQ,
    SIMPLE_CQ,
    TopicConfig,
    TopicsFile,
)
from rocketflow_store.metadata.layout.group_offsets import group_offsets, publish_group_offsets
from rocketflow_store.metadata.layout.store_paths import topics_of

__all__ = [
    "BATCH_CQ",
    "SIMPLE_CQ",
    "SubscriptionGroupConfig",
    "TopicConfig",
    "TopicsFile",
    "group_offsets",
    "publish_group_offsets",
    "topics_of",
]
