"""Settings of consumer groups, and groups made on first use.

RocketMQ's source: broker/subscription/SubscriptionGroupManager.java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store import StoreError
from rocketflow_store.spi.names import validate_group
from rocketflow_store.spi.tables import SubscriptionGroupConfig

if TYPE_CHECKING:
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore

SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class Groups:
    """The consumer groups of a broker."""

    def __init__(self, store: WritingStore, settings: BrokerSettings) -> None:
        self._table = store.group_table
        self._may_create = settings.auto_create_subscription_group

    def create_system_groups(self) -> None:
        """Create the groups that every broker has. Raises StoreError."""
        known = self._table.items()
        for name in SYSTEM_GROUPS:
            if name not in known:
                self._table.put(SubscriptionGroupConfig(name))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group, None if there is none."""
        return self._table.get(group)

    def for_use(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group that reads, made if that is allowed; None if there is none."""
        found = self._table.get(group)
        if found is not None or not self._may_create:
            return found
        try:
            validate_group(group)
            found = SubscriptionGroupConfig(group)
            self._table.put(found)
        except StoreError:
            return None
        return found

    def put(self, config: SubscriptionGroupConfig) -> None:
        """Make or change a group. Raises StoreError."""
        self._table.put(config)

    def remove(self, group: str) -> bool:
        """Remove a group; return whether there was one. Raises StoreError."""
        return self._table.delete(group)

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """Return all groups."""
        return self._table.items()
