"""Settings of consumer groups, and groups made on first use.

RocketMQ's source: broker/subscription/SubscriptionGroupManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.server import RefusedError
from rocketflow.broker.topics import OF_GROUPS, AttributesError, State, TableChanges, merged_attributes
from rocketflow.remoting.codes import ResponseCode
from rocketflow_store import StoreError
from rocketflow_store.spi.names import PERM_READ, validate_group
from rocketflow_store.spi.table_rows import SubscriptionGroupConfig, json_of

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

LIMIT: Final = 100_000


class Groups:
    """The consumer groups of a broker; at most LIMIT are made on first use. Changes are written in a thread."""

    def __init__(self, store: WritingStore, settings: BrokerSettings) -> None:
        self._table = store.group_table
        self._writes = TableChanges(self._table, lambda: None)
        self._settings = settings

    def create_system_groups(self) -> None:
        """Create the groups that every broker has. Raises StoreError."""
        known = self._table.items()
        self._table.put(*(SubscriptionGroupConfig(name) for name in SYSTEM_GROUPS if name not in known))

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group, None if there is none."""
        return self._table.get(group)

    async def for_use(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the settings of a group that reads, made if that is allowed; None if there is none."""
        found = self._table.get(group)
        if found is None:
            await self.make([group])
        return found or self._table.get(group)

    async def make(self, groups: Iterable[str]) -> None:
        """Make groups that do not exist, as far as that is allowed, as one write."""
        if not self._settings.auto_create_subscription_group:
            return
        named = [one for one in groups if _is_valid(one)]

        def plan(state: State[SubscriptionGroupConfig]) -> dict[str, SubscriptionGroupConfig]:
            missing = [one for one in dict.fromkeys(named) if state.get(one) is None]
            return {one: SubscriptionGroupConfig(one) for one in missing[: max(LIMIT - state.count, 0)]}

        with suppress(RefusedError):
            await self._writes.apply(plan)

    def once_known(self, group: str, call: Callable[..., None], *arguments: object) -> Coroutine[Any, Any, None] | None:
        """Call a function now if the group exists; else return a coroutine that makes the group before, if it may."""
        if self._table.get(group) is None:
            return self._call_after_creation(group, call, arguments)
        call(*arguments)
        return None

    async def _call_after_creation(self, group: str, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
        await self.for_use(group)
        call(*arguments)

    async def change(self, wanted: Iterable[SubscriptionGroupConfig]) -> None:
        """Make or change groups; none changes if one of them is refused.

        Attributes that are wanted are changes, by signed names. Raises RefusedError if one is not allowed, or a group
        cannot be kept.
        """
        given = list(wanted)
        await self._writes.apply(lambda state: {one.group_name: one for one in changed_groups(given, state.get)})

    async def delete(self, group: str) -> None:
        """Remove a group if there is one. Raises RefusedError if that cannot be kept."""
        await self._writes.alone(self._table.delete, group)

    def is_forbidden(self, group: str, topic: str) -> bool:
        """Return whether a group must not read a topic."""
        return bool(self._table.forbidden(group, topic) & PERM_READ)

    async def forbid(self, group: str, topic: str, forbidden: bool) -> None:
        """Forbid a group to read a topic, or allow it. Raises RefusedError if that cannot be kept."""

        def change() -> None:
            bits = self._table.forbidden(group, topic) & ~PERM_READ
            self._table.forbid(group, topic, bits | (PERM_READ if forbidden else 0))

        await self._writes.alone(change)

    def wrapper(self) -> dict[str, Any]:
        """Return all groups and what is forbidden to them, as request 201 answers."""
        return {
            "dataVersion": self._table.data_version,
            "forbiddenTable": self._table.all_forbidden(),
            "subscriptionGroupTable": {name: json_of(one) for name, one in self.all().items()},
        }

    def all(self) -> dict[str, SubscriptionGroupConfig]:
        """Return all groups."""
        return self._table.items()


def _is_valid(group: str) -> bool:
    try:
        validate_group(group)
    except StoreError:
        return False
    return True


def changed_groups(
    wanted: Iterable[SubscriptionGroupConfig], known: Callable[[str], SubscriptionGroupConfig | None]
) -> list[SubscriptionGroupConfig]:
    """Return the groups that a request makes or changes, as they are afterwards.

    The attributes of a group are merged with those that it has. Raises RefusedError for a name or a change that is not
    allowed.
    """
    planned: dict[str, SubscriptionGroupConfig] = {}
    for one in wanted:
        name = one.group_name
        try:
            validate_group(name)
            now = planned.get(name) or known(name)
            merged = merged_attributes(now.attributes if now else None, one.attributes, OF_GROUPS)
        except StoreError as error:
            raise RefusedError(ResponseCode.INVALID_PARAMETER, str(error)) from None
        except AttributesError as error:
            raise RefusedError(ResponseCode.SYSTEM_ERROR, f"group {name}: {error}") from None
        planned[name] = one.changing(now, merged)
    return list(planned.values())
