"""`config/subscriptionGroup.json`: the consumer groups a broker knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rocketflow_store.files.json_fields import (
    bool_field,
    int32_field,
    int64_field,
    object_field,
    text_field,
)
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.topic_names import validate_group, validate_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

_KNOWN: Final = frozenset(
    {
        "attributes",
        "brokerId",
        "consumeBroadcastEnable",
        "consumeEnable",
        "consumeFromMinEnable",
        "consumeMessageOrderly",
        "consumeTimeoutMinute",
        "groupName",
        "groupRetryPolicy",
        "groupSysFlag",
        "notifyConsumerIdsChangedEnable",
        "retryMaxTimes",
        "retryQueueNums",
        "whichBrokerWhenConsumeSlowly",
    }
)


def _customized() -> dict[str, Any]:
    return {"type": "CUSTOMIZED"}


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """RocketMQ's SubscriptionGroupConfig; `extra` holds unknown members, which are written back unchanged."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: Mapping[str, Any] = field(default_factory=_customized)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, name: str, entry: dict[str, Any]) -> SubscriptionGroupConfig:
        """Parse an entry; raise ValueError that names an invalid member.

        Members that a 4.9 broker does not write take their defaults.
        """
        attributes = object_field(entry, "attributes")
        return cls(
            group_name=text_field(entry, "groupName", name),
            consume_enable=bool_field(entry, "consumeEnable", True),
            consume_from_min_enable=bool_field(entry, "consumeFromMinEnable", True),
            consume_broadcast_enable=bool_field(entry, "consumeBroadcastEnable", True),
            consume_message_orderly=bool_field(entry, "consumeMessageOrderly", False),
            consume_timeout_minute=int32_field(entry, "consumeTimeoutMinute", 15),
            retry_queue_nums=int32_field(entry, "retryQueueNums", 1),
            retry_max_times=int32_field(entry, "retryMaxTimes", 16),
            group_retry_policy=object_field(entry, "groupRetryPolicy") or _customized(),
            broker_id=int64_field(entry, "brokerId", 0),
            which_broker_when_consume_slowly=int64_field(entry, "whichBrokerWhenConsumeSlowly", 1),
            notify_consumer_ids_changed_enable=bool_field(entry, "notifyConsumerIdsChangedEnable", True),
            group_sys_flag=int32_field(entry, "groupSysFlag", 0),
            attributes={key: text_field(attributes, key, "") for key in attributes},
            extra={key: value for key, value in entry.items() if key not in _KNOWN},
        )

    def to_json(self) -> dict[str, Any]:
        entry = {
            **self.extra,
            "attributes": dict(self.attributes),
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_message_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minute,
            "groupName": self.group_name,
            "groupRetryPolicy": dict(self.group_retry_policy),
            "groupSysFlag": self.group_sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }
        return dict(sorted(entry.items()))


class SubscriptionGroupsFile(JsonConfigFile):
    """Groups by name, and the topics that each of them must not read."""

    NAME: ClassVar[str] = "subscriptionGroup.json"
    _groups: dict[str, SubscriptionGroupConfig]
    _forbidden: dict[str, Any]

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        with self._guard:
            self._refresh()
            return self._groups.get(group)

    def of(self, group: str) -> SubscriptionGroupConfig:
        """Return the stored settings of a group, or the defaults."""
        return self.get(group) or SubscriptionGroupConfig(group)

    def groups(self) -> dict[str, SubscriptionGroupConfig]:
        with self._guard:
            self._refresh()
            return dict(self._groups)

    def put(self, *configs: SubscriptionGroupConfig) -> None:
        """Create or replace groups by one write; durable on return."""
        for config in configs:
            validate_group(config.group_name)
        with self._guard:
            self._refresh()
            changed = {one.group_name: one for one in configs if self._groups.get(one.group_name) != one}
            if changed:
                self._groups = {**self._groups, **changed}
                self._persist()

    def forbidden(self, group: str, topic: str) -> int:
        """Return the permission bits that a group does not have on a topic; 0 if nothing is forbidden."""
        with self._guard:
            self._refresh()
            found = object_field(self._forbidden, group)
            return int32_field(found, topic, 0)

    def all_forbidden(self) -> dict[str, dict[str, int]]:
        """Return the forbidden permission bits of all groups by group and topic."""
        with self._guard:
            self._refresh()
            tables = {group: object_field(self._forbidden, group) for group in self._forbidden}
            return {group: {name: int32_field(found, name, 0) for name in found} for group, found in tables.items()}

    def forbid(self, group: str, topic: str, bits: int) -> None:
        """Set the permission bits that a group does not have on a topic; durable on return."""
        validate_group(group)
        validate_topic(topic)
        with self._guard:
            self._refresh()
            topics = {name: value for name, value in object_field(self._forbidden, group).items() if name != topic}
            if bits > 0:
                topics[topic] = bits
            forbidden = {name: value for name, value in self._forbidden.items() if name != group}
            if topics:
                forbidden[group] = topics
            if forbidden != self._forbidden:
                self._forbidden = forbidden
                self._persist()

    def remove(self, group: str) -> bool:
        """Remove a group and its forbidden topics; return False if it did not exist."""
        with self._guard:
            self._refresh()
            if group not in self._groups:
                return False
            self._groups = {name: config for name, config in self._groups.items() if name != group}
            self._forbidden = {name: topics for name, topics in self._forbidden.items() if name != group}
            self._persist()
            return True

    def _adopt(self, document: dict[str, Any]) -> None:
        table = object_field(document, "subscriptionGroupTable")
        groups = {name: SubscriptionGroupConfig.from_json(name, object_field(table, name)) for name in table}
        self._forbidden = object_field(document, "forbiddenTable")
        self._groups = groups

    def members(self) -> dict[str, Any]:
        groups = {name: config.to_json() for name, config in self._groups.items()}
        return {"forbiddenTable": self._forbidden, "subscriptionGroupTable": groups}
