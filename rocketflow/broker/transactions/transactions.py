"""The transactions of a broker: their requests and the service that checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.broker.parts import Parts, Services
from rocketflow.broker.transactions.check import Broker, TransactionChecks, stored_offset
from rocketflow.broker.transactions.end import TransactionEnds
from rocketflow.broker.transactions.end_puts import EndPuts
from rocketflow.broker.transactions.ends_together import EndsTogether
from rocketflow.broker.transactions.half_queue import HalfQueue
from rocketflow.broker.transactions.marked_puts import MarkedPuts
from rocketflow.broker.transactions.messages import OP_TOPIC
from rocketflow.broker.transactions.op_marks import OpMarks
from rocketflow.broker.transactions.recent_halves import RecentHalves
from rocketflow.broker.transactions.resume import TransactionResumes
from rocketflow.broker.transactions.walk import Rules
from rocketflow_store.spi.ids import encode_host

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.figures import MessageCounts
    from rocketflow.broker.groups import Tables
    from rocketflow.broker.operators import Access
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.transactions.marked_puts import Gatherer
    from rocketflow_store.spi.broker import WritingStore

_HOUR_MS = 3_600_000


class Transactions(Parts):
    """Requests 37 and 323, and request 39 to producers."""

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        tables: Tables,
        gatherer: Gatherer,
        counts: MessageCounts,
        access: Access,
    ) -> None:
        host, queue = encode_host(settings.broker_address), HalfQueue(store)
        reserved_ms = store.config.file_reserved_time * _HOUR_MS
        rules = Rules(
            settings.transaction_time_out,
            settings.transaction_check_max,
            reserved_ms,
            settings.transaction_op_msg_max_size,
        )
        marks = OpMarks(stored_offset(tables.offsets, OP_TOPIC, queue.op_bounds()))
        puts = MarkedPuts(gatherer, marks, host)
        broker = Broker(tables.producers, tables.topics, settings.broker_name, host, counts, access)
        self._interval_s = settings.transaction_check_interval / 1000
        self.recent = RecentHalves(host)
        """The half messages that were stored last: a send notes its own there."""
        self._checks = TransactionChecks(queue, tables.offsets, puts, marks, broker, rules)
        end_puts = EndPuts(puts, rules.max_mark_bytes)
        self.together = EndsTogether(end_puts, self.recent, counts, self._checks, rules.max_mark_bytes)
        """Serves the usual ends of a read together."""
        super().__init__(
            TransactionEnds(store, end_puts, self.recent, rules, counts, self._checks, access),
            TransactionResumes(store, gatherer, counts, self._checks),
        )

    def services(self) -> Services:
        """Return the checks of undecided half messages."""
        return (self._checks.check_every(self._interval_s),)

    def add_figures(self, shown: Exposition) -> None:
        """Add what the checks have not decided and not read, and how many questions producers were asked."""
        unread = self._checks.unread()
        text = "Half messages from the first that is not decided, also decided ones"
        shown.gauge("rocketflow_half_messages_open", text, [((), unread.half_messages)])
        text = "Op marks that no check of half messages has read"
        shown.gauge("rocketflow_op_marks_unread", text, [((), unread.op_marks)])
        text = "Questions to producers about half messages"
        shown.counter("rocketflow_transaction_checks_total", text, [((), self._checks.asked)])
