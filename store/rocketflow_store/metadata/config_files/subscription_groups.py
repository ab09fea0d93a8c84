"""`config/subscriptionGroup.json`: the consumer groups a broker knows."""

from __future__ import annotations

from typing import Any, ClassVar

from rocketflow_store.files.json_fields import int32_field, object_field
from rocketflow_store.metadata.config_files.json_config_file import JsonConfigFile
from rocketflow_store.model.topic_names import validate_group, validate_topic
from rocketflow_store.tables.subscription_group_config import SubscriptionGroupConfig
from rocketflow_store.tables.table_row import entry_of, row_of


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
        groups = {
            name: row_of(SubscriptionGroupConfig, {"groupName": name, **object_field(table, name)}) for name in table
        }
        self._forbidden = object_field(document, "forbiddenTable")
        self._groups = groups

    def members(self) -> dict[str, Any]:
        groups = {name: entry_of(config) for name, config in self._groups.items()}
        return {"forbiddenTable": self._forbidden, "subscriptionGroupTable": groups}
