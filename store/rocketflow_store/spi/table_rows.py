"""Rows of RocketMQ's tables of topics and groups, and their JSON codec; needs msgspec and nothing else of the store."""

from __future__ import annotations

from rocketflow_store.tables.data_version import DataVersion
from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig
from rocketflow_store.tables.table_row import TableRow, converted, json_of, row_of
from rocketflow_store.tables.topic_config import BATCH_CQ, SIMPLE_CQ, TopicConfig

__all__ = [
    "BATCH_CQ",
    "SIMPLE_CQ",
    "DataVersion",
    "SubscriptionGroupConfig",
    "TableRow",
    "TopicConfig",
    "converted",
    "json_of",
    "row_of",
]
