"""The requests whose answers hold stored messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketflow.broker.parts import Parts, Services
from rocketflow.broker.reads.pulls import MAX_COLD, Pulls
from rocketflow.broker.reads.queries import Queries
from rocketflow.broker.reads.range_pulls import RangePulls

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore


class ReadParts(Parts):
    """The parts that read messages for clients."""

    def __init__(
        self, store: WritingStore, settings: BrokerSettings, tables: Tables, counts: MessageCounts, access: Access
    ) -> None:
        self.pulls = Pulls(store, settings, tables, counts, access)
        self._ranges = RangePulls(store, tables, self.pulls.checks, counts, access)
        super().__init__(self.pulls, self._ranges, Queries(store, access))

    def services(self) -> Services:
        """Return what answers the pulls that have waited long enough."""
        return (self.pulls.expire(),)

    def end_waiting(self) -> None:
        """Answer the pulls that wait, and begin no further read of a range."""
        self.pulls.answer_all()
        self._ranges.stop()

    def channel_closed(self, channel: Channel) -> None:
        """Forget the pulls of a connection."""
        self.pulls.channel_closed(channel)

    def waiting(self) -> Mapping[str, int]:
        """Return how many pulls wait for the disk."""
        return {"pull": self.pulls.cold_count}

    def runtime_figures(self) -> Mapping[str, str]:
        """Return the figures of the pulls that wait for the disk."""
        return {"pullThreadPoolQueueSize": str(self.pulls.cold_count), "pullThreadPoolQueueCapacity": str(MAX_COLD)}

    def add_figures(self, shown: Exposition) -> None:
        """Add how many pulls wait for messages."""
        shown.gauge("rocketflow_held_pulls", "Pulls that wait for messages", [((), self.pulls.held_count)])
