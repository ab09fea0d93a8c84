"""The transactions of a broker: their requests and the service that checks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketflow.broker.transactions.check import Broker, TransactionChecks, Unread, stored_offset
from rocketflow.broker.transactions.end import TransactionEnds
from rocketflow.broker.transactions.half_queue import HalfQueue
from rocketflow.broker.transactions.marked_puts import MarkedPuts
from rocketflow.broker.transactions.messages import OP_TOPIC
from rocketflow.broker.transactions.op_marks import OpMarks
from rocketflow.broker.transactions.recent_halves import RecentHalves
from rocketflow.broker.transactions.resume import TransactionResumes
from rocketflow.broker.transactions.walk import Rules
from rocketflow.remoting.codes import RequestCode
from rocketflow_store.spi.ids import encode_host

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.server import Processor
    from rocketflow.broker.figures.counts import MessageCounts
    from rocketflow.broker.groups.clients import ProducerTable
    from rocketflow.broker.groups.offsets import GroupOffsets
    from rocketflow.broker.operators.access import Access
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.topics.topics import Topics
from rocketflow_store.spi.broker import WritingStore

_HOUR_MS = 3_600_000


class Transactions:
    """Requests 37 and 323, and request 39 to producers."""

    def __init__(
        self,
        store: WritingStore,
        gatherer: PutGatherer,
        offsets: GroupOffsets,
        producers: ProducerTable[Channel],
        topics: Topics,
        settings: BrokerSettings,
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
        marks = OpMarks(stored_offset(offsets, OP_TOPIC, queue.op_bounds()))
        puts = MarkedPuts(gatherer, marks, host)
        broker = Broker(producers, topics, settings.broker_name, host, counts, access)
        self._interval_s = settings.transaction_check_interval / 1000
        self.recent = RecentHalves(host)
        """The half messages that were stored last: a send notes its own there."""
        self._checks = TransactionChecks(queue, offsets, puts, marks, broker, rules)
        self._ends = TransactionEnds(store, puts, self.recent, rules, counts, self._checks, access)
        self._resumes = TransactionResumes(store, gatherer, counts, self._checks)

    def by_code(self) -> dict[int, Processor]:
        """Return the processors of these requests."""
        return {
            RequestCode.END_TRANSACTION: self._ends.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self._resumes.resume,
        }

    def unread(self) -> Unread:
        """Return what the checks have not decided and not read."""
        return self._checks.unread()

    @property
    def asked(self) -> int:
        """Return how many questions producers were asked."""
        return self._checks.asked

    async def check(self) -> None:
        """Check undecided half messages until cancelled."""
        await self._checks.check_every(self._interval_s)
