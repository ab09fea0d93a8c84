"""The requests that store messages of clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketflow.broker.parts import Parts
from rocketflow.broker.puts.awaited_replies import AwaitedReplies
from rocketflow.broker.puts.put_gatherer import MAX_OPEN
from rocketflow.broker.puts.recalls import Recalls
from rocketflow.broker.puts.replies import Replies
from rocketflow.broker.puts.send_back import SendBacks
from rocketflow.broker.puts.sends import Sends
from rocketflow.broker.puts.sends_together import SendsTogether

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.transactions import Transactions
    from rocketflow_store.spi.broker import WritingStore


class PutParts(Parts):
    """The parts that put messages of clients; half messages and their ends are for `transactions`."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        tables: Tables,
        gatherer: PutGatherer,
        counts: MessageCounts,
        access: Access,
        transactions: Transactions,
    ) -> None:
        self._gatherer = gatherer
        awaited = AwaitedReplies(access.guard.sender) if access.has_rules else None
        sends = Sends(settings, tables, gatherer, counts, transactions.recent, awaited)
        self.together = SendsTogether(
            store, tables.topics, gatherer, counts, sends, transactions.together, access.guard
        )
        """Serves the usual sends and ends of a read together."""
        super().__init__(
            sends,
            SendBacks(store, settings, tables, gatherer, counts, access),
            Replies(settings, sends, tables.producers, awaited, access),
            Recalls(settings, tables.topics, gatherer, store.config.timer_max_delay_sec * 1000),
        )

    def waiting(self) -> Mapping[str, int]:
        """Return how many messages wait for the store."""
        return {"send": self._gatherer.waiting_count}

    def runtime_figures(self) -> Mapping[str, str]:
        """Return the figures of the messages that wait."""
        return {
            "sendThreadPoolQueueSize": str(self._gatherer.waiting_count),
            "sendThreadPoolQueueCapacity": str(MAX_OPEN),
            "sendThreadPoolQueueHeadWaitTimeMills": str(self._gatherer.waiting_ms),
        }

    def add_figures(self, shown: Exposition) -> None:
        """Add how many messages are appended together."""
        text = "Messages of one append to the store"
        shown.histogram("rocketflow_put_run_messages", text, [((), self._gatherer.runs)])
