"""The settings of a consumer group. RocketMQ's source: remoting/protocol/subscription/SubscriptionGroupConfig.java."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from rocketflow_store.tables.table_row import ConfigRow, Int32, Int64


class SubscriptionGroupConfig(ConfigRow, frozen=True):
    """RocketMQ's SubscriptionGroupConfig."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: Int32 = 15
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    group_retry_policy: dict[str, Any] = field(default_factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: Int32 = 0
    subscription_data_set: list[dict[str, Any]] | UnsetType = UNSET
