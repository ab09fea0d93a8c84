"""The requests, services and figures of groups and clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketflow.broker.groups.client_requests import ClientRequests
from rocketflow.broker.groups.group_admin import GroupAdmin
from rocketflow.broker.groups.group_figures import GroupFigures
from rocketflow.broker.groups.group_requests import GroupRequests
from rocketflow.broker.groups.member_calls import MemberCalls
from rocketflow.broker.groups.offsets import OffsetRequests
from rocketflow.broker.groups.tables import Tables
from rocketflow.broker.parts import Parts, Services

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.figures import BrokerStats
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics import Topics
    from rocketflow_store.spi.broker import WritingStore


class GroupParts(Parts):
    """The parts about groups and clients; `tables` have their state."""

    def __init__(
        self, store: WritingStore, settings: BrokerSettings, topics: Topics, stats: BrokerStats, access: Access
    ) -> None:
        self.tables = tables = Tables(store, settings, topics)
        self._settings = settings
        self._clients = ClientRequests(settings, tables, access)
        self._figures = GroupFigures(store, tables)
        super().__init__(
            self._clients,
            OffsetRequests(store, tables.offsets, topics, tables.groups),
            GroupRequests(settings, tables, stats),
            GroupAdmin(store, settings, tables, stats),
            MemberCalls(store, settings, tables.consumers, access),
        )

    def services(self) -> Services:
        """Return the watch on silent clients, and the writes of offsets."""
        every_s = self._settings.flush_consumer_offset_interval / 1000
        return self._clients.expire(), self.tables.offsets.save_every(every_s)

    def channel_closed(self, channel: Channel) -> None:
        """Forget the clients of a connection."""
        self._clients.channel_closed(channel)

    def add_figures(self, shown: Exposition) -> Callable[[], None]:
        """Add numbers of groups and clients, and lags in a thread."""
        return self._figures.add(shown)
