"""Counts of messages by topic and group, as plain integers: sends and pulls add, a scrape or mqadmin reads.

RocketMQ's source: broker/metrics/BrokerMetricsManager.java (getMessageType),
broker/processor/SendMessageProcessor.java, DefaultPullMessageResultHandler.java, EndTransactionProcessor.java,
broker/transaction/TransactionMetrics.java, store/metrics/DefaultStoreMetricsManager.java.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rocketflow.aio.histogram import Histogram
from rocketflow.broker.figures.labels import OTHER
from rocketflow_store.spi.names import DLQ_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.broker.figures.stats import BrokerStats
    from rocketflow_store import PutMessageResult
    from rocketflow_store.spi.broker import RawMessage, SentRecords

MAX_SENT: Final = 230
MAX_PULLED: Final = 500
MAX_DEAD: Final = 200
MAX_ENDED: Final = 100
MAX_HALF: Final = 200
MAX_DELAYED: Final = 50

SIZE_BOUNDS: Final = (1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20)
LATENCY_BOUNDS: Final = (5, 60, 600, 3_600, 43_200, 86_400)
DELAY_BOUNDS: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)
RUN_BOUNDS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)

FIFO: Final = "fifo"
NORMAL: Final = "normal"
DELAY: Final = "delay"
KINDS: Final = NORMAL, FIFO, DELAY
"""Types of messages, in the order of the kernel's numbers."""

_FIFO: Final = re.compile(rb"(?:^|\x02)__SHARDINGKEY\x01")
_DELAY: Final = re.compile(
    rb"(?:^|\x02)(?:DELAY|TIMER_DELIVER_MS|TIMER_DELAY_SEC|TIMER_DELAY_MS|__STARTDELIVERTIME)\x01"
)


class Sent:
    """Counts of the messages of one kind that were stored; bytes are those of bodies and properties."""

    __slots__ = ("bytes", "messages", "sizes")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0
        self.sizes = Histogram(SIZE_BOUNDS)


class Pulled:
    """Counts of the messages of a topic that a group got; bytes are those of the records."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = 0
        self.bytes = 0


class MessageCounts:
    """Counts of sends, pulls and send-backs: for mqadmin (`stats`), and with metrics for Prometheus (`exported`)."""

    def __init__(self, stats: BrokerStats, exported: Counts | None) -> None:
        self._stats = stats
        self._exported = exported

    def sent(self, message: RawMessage, result: PutMessageResult) -> None:
        """Count a message or a batch that a client sent and that is stored."""
        topic, messages = message.topic, result.message_count
        self._stats.sent(topic, messages, result.stored_size)
        if self._exported is not None:
            size = len(message.body) + len(message.properties)
            self._exported.send(topic, message.properties, messages, size)
            if result.timer_out_ms is not None:
                self._exported.delay(topic, (result.timer_out_ms - message.born_ms) / 1000)
            if topic.startswith(DLQ_PREFIX):
                self._exported.dead_letter(topic.removeprefix(DLQ_PREFIX))

    def sent_together(self, records: SentRecords) -> None:
        """Count messages that clients sent and that are stored."""
        for topic, messages, size, requests in records.topics:
            self._stats.sent(topic, messages, size, requests)
        if self._exported is not None:
            for topic, kind, messages, size, sizes in records.kinds(SIZE_BOUNDS):
                self._exported.send_together(topic, KINDS[kind], messages, size, sizes)

    def pulled(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count the messages of an answer; `size` is that of their records in bytes."""
        self._stats.pulled(topic, group, messages, size)
        if self._exported is not None:
            self._exported.pull(group, topic, messages, size)

    def half(self, topic: str, change: int) -> None:
        """Count undecided half messages of a real topic more or less."""
        if self._exported is not None:
            self._exported.half(topic, change)

    def ended(self, topic: str, births_ms: Sequence[int], now_ms: float, *, is_commit: bool) -> None:
        """Count half messages of some times of birth that their producers have committed or rolled back now."""
        if self._exported is not None:
            ages_s = [max(now_ms - one, 0.0) / 1000 for one in births_ms]
            self._exported.end(topic, ages_s, is_commit=is_commit)
            self._exported.half(topic, -len(births_ms))

    def sent_back(self, topic: str, group: str, *, is_dead: bool) -> None:
        """Count a message of `topic` that a consumer of `group` sent back; with `is_dead` it is a dead letter."""
        self._stats.sent_back(topic, group, is_dead=is_dead)
        if is_dead and self._exported is not None:
            self._exported.dead_letter(group)


class Counts:
    """Counts of what clients sent and got since the start; tables have limits, later names count as OTHER."""

    def __init__(self) -> None:
        self.sent: dict[tuple[str, str], Sent] = {}
        """By topic and message type."""
        self.pulled: dict[tuple[str, str], Pulled] = {}
        """By group and topic."""
        self.dead: dict[str, int] = {}
        """Messages that went to the dead letters, by group."""
        self.committed: dict[str, int] = {}
        self.rolled_back: dict[str, int] = {}
        """Ended transactions by topic."""
        self.commit_latency: dict[str, Histogram] = {}
        """Seconds from a half message to its commit, by topic."""
        self.delays: dict[str, Histogram] = {}
        """Seconds from the birth of a timer message to its due time, by topic."""
        self.half_messages: dict[str, int] = {}
        """Undecided half messages by topic."""

    def send(self, topic: str, properties: bytes, messages: int, size: int) -> None:
        """Count what one request sent: `messages` messages of `size` bytes together."""
        found = self._sent_of(topic, message_type(properties))
        found.messages += messages
        found.bytes += size
        found.sizes.observe(size // messages)

    def send_together(self, topic: str, kind: str, messages: int, size: int, sizes: Sequence[int]) -> None:
        """Count what requests sent: messages of one type, of `size` bytes; `sizes` counts requests by SIZE_BOUNDS."""
        found = self._sent_of(topic, kind)
        found.messages += messages
        found.bytes += size
        found.sizes.add(sizes, size)

    def _sent_of(self, topic: str, kind: str) -> Sent:
        found = self.sent.get((topic, kind))
        if found is None:
            if len(self.sent) >= MAX_SENT:
                topic = OTHER
            found = self.sent.setdefault((topic, kind), Sent())
        return found

    def pull(self, group: str, topic: str, messages: int, size: int) -> None:
        """Count what one pull returned."""
        found = self.pulled.get((group, topic))
        if found is None:
            key = (group, topic) if len(self.pulled) < MAX_PULLED else (OTHER, OTHER)
            found = self.pulled.setdefault(key, Pulled())
        found.messages += messages
        found.bytes += size

    def delay(self, topic: str, seconds: float) -> None:
        """Count a timer message that is due so long after its birth."""
        if topic not in self.delays and len(self.delays) >= MAX_DELAYED:
            topic = OTHER
        self.delays.setdefault(topic, Histogram(DELAY_BOUNDS)).observe(max(seconds, 0.0))

    def half(self, topic: str, change: int) -> None:
        """Count undecided half messages more or less."""
        if topic not in self.half_messages and len(self.half_messages) >= MAX_HALF:
            topic = OTHER
        self.half_messages[topic] = self.half_messages.get(topic, 0) + change

    def end(self, topic: str, ages_s: Sequence[float], *, is_commit: bool) -> None:
        """Count transactions that have ended, by their ages in seconds."""
        ends = self.committed if is_commit else self.rolled_back
        if topic not in ends and len(ends) >= MAX_ENDED:
            topic = OTHER
        ends[topic] = ends.get(topic, 0) + len(ages_s)
        if is_commit:
            latency = self.commit_latency.get(topic)
            if latency is None:
                latency = self.commit_latency[topic] = Histogram(LATENCY_BOUNDS)
            for age_s in ages_s:
                latency.observe(age_s)

    def dead_letter(self, group: str) -> None:
        """Count a message that went to the dead letters of a group."""
        if group not in self.dead and len(self.dead) >= MAX_DEAD:
            group = OTHER
        self.dead[group] = self.dead.get(group, 0) + 1


def message_type(properties: bytes) -> str:
    """Return RocketMQ's name of the type of a message by its property string."""
    if _FIFO.search(properties):
        return FIFO
    return DELAY if _DELAY.search(properties) else NORMAL
