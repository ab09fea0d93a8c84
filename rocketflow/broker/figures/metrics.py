"""The broker's figures under RocketMQ's names, converted from plain counts when they are asked for.

RocketMQ's source: broker/metrics/BrokerMetricsManager.java, store/metrics/DefaultStoreMetricsManager.java,
remoting/metrics/RemotingMetricsManager.java, broker/metrics/ConsumerLagCalculator.java.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from rocketflow.aio.exposition import Exposition
from rocketflow.broker.figures.counts import OTHER
from rocketflow.broker.groups.lags import Lag, lags_of
from rocketflow_store.spi.delivery import SOON_S, ScheduleMessageService
from rocketflow_store.spi.names import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, is_system_topic

if TYPE_CHECKING:
    from rocketflow.aio.channel import Channel
    from rocketflow.aio.loop_lag import LoopLag
    from rocketflow.aio.rpc_latency import RpcLatency
    from rocketflow.aio.server import Server
    from rocketflow.broker.figures.counts import Counts
    from rocketflow.broker.figures.timer_figures import TimerFigures
    from rocketflow.broker.groups.clients import ConsumerTable, ProducerTable
    from rocketflow.broker.groups.groups import Groups
    from rocketflow.broker.groups.offsets import GroupOffsets
    from rocketflow.broker.puts.put_gatherer import PutGatherer
    from rocketflow.broker.reads.pulls import Pulls
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow.broker.store_requests import StoreRequests
    from rocketflow.broker.topics.registration import Registration
    from rocketflow.broker.topics.topics import Topics
    from rocketflow.broker.transactions.transactions import Transactions
    from rocketflow_store.spi.broker import WritingStore

LAG_SECONDS: Final = 10.0
"""How long computed lags of groups are used."""

MAX_CONNECTION_KINDS: Final = 250

_MESSAGE: Final = ("topic", "message_type", "is_system")
_GROUP: Final = ("consumer_group", "topic", "is_retry", "is_system")
_STORE: Final = ("storage_type", "storage_medium")
_DISK: Final = ("local", "disk")
_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}


class Delivery(Protocol):
    """A service that delivers waiting messages."""

    @property
    def delivered(self) -> int:
        """Return how many messages it has delivered."""

    @property
    def error(self) -> Exception | None:
        """Return the error of its last attempt, None without one."""


class Sources(NamedTuple):
    """The parts of a broker that have figures."""

    store: WritingStore
    topics: Topics
    groups: Groups
    offsets: GroupOffsets
    producers: ProducerTable[Channel]
    consumers: ConsumerTable[Channel]
    gatherer: PutGatherer
    pulls: Pulls
    registration: Registration
    servers: Sequence[Server]
    deliveries: Mapping[str, Delivery]
    jobs: StoreRequests
    transactions: Transactions
    timers: TimerFigures
    counts: Counts
    latency: RpcLatency
    lag: LoopLag


class BrokerMetrics:
    """Makes the text of `/metrics`: at most 10,000 series, as each table with names of topics or groups ends."""

    def __init__(self, sources: Sources, settings: BrokerSettings) -> None:
        self._from = sources
        self._settings = settings
        self._lags: list[Lag] = []
        self._lags_until = 0.0

    async def render(self) -> bytes:
        """Return the text: plain values are taken in the loop, all else happens in a thread."""
        settings = self._settings
        shown = Exposition(cluster=settings.broker_cluster_name, node_type="broker", node_id=settings.broker_name)
        self._add_messages(shown)
        self._add_broker(shown)
        self._add_waiting(shown)
        self._add_clients(shown)
        committed = self._from.offsets.all() if time.monotonic() >= self._lags_until else None
        return await asyncio.to_thread(self._render, shown, committed)

    def _add_messages(self, shown: Exposition) -> None:
        counts = self._from.counts
        sent = [((topic, kind, _is_system(topic)), one) for (topic, kind), one in counts.sent.items()]
        pulled = [(_group(group, topic), one) for (group, topic), one in counts.pulled.items()]
        text = "Messages that clients sent"
        shown.counter("rocketmq_messages_in_total", text, ((key, one.messages) for key, one in sent), _MESSAGE)
        text = "Bytes of bodies and properties that clients sent"
        shown.counter("rocketmq_throughput_in_total", text, ((key, one.bytes) for key, one in sent), _MESSAGE)
        text = "Bytes of body and properties of a message"
        shown.histogram("rocketmq_message_size", text, ((key, one.sizes) for key, one in sent), _MESSAGE)
        text = "Messages that consumers got"
        shown.counter("rocketmq_messages_out_total", text, ((key, one.messages) for key, one in pulled), _GROUP)
        text = "Bytes of records that consumers got"
        shown.counter("rocketmq_throughput_out_total", text, ((key, one.bytes) for key, one in pulled), _GROUP)
        text = "Messages that went to the dead letters of a group"
        dead = (((group,), count) for group, count in counts.dead.items())
        shown.counter("rocketmq_send_to_dlq_messages_total", text, dead, ("consumer_group",))

    def _add_broker(self, shown: Exposition) -> None:
        parts = self._from
        shown.rpc_latency(parts.latency)
        waiting = [
            (("send",), parts.gatherer.waiting_count),
            (("pull",), parts.pulls.cold_count),
            (("admin",), sum(one.task_count for one in parts.servers)),
        ]
        shown.gauge("rocketmq_processor_watermark", "Requests that wait or run in a thread", waiting, ("processor",))
        shown.gauge("rocketmq_broker_permission", "brokerPermission", [((), self._settings.broker_permission)])
        shown.gauge("rocketmq_topic_number", "Topics", [((), len(parts.topics.all()))])
        shown.gauge("rocketmq_consumer_group_number", "Consumer groups", [((), len(parts.groups.all()))])
        connections = sum(one.connection_count for one in parts.servers)
        shown.gauge("rocketflow_connections", "Open connections", [((), connections)])
        shown.gauge("rocketflow_held_pulls", "Pulls that wait for messages", [((), parts.pulls.held_count)])
        up = [((one,), float(is_up)) for one, is_up in parts.registration.is_up().items()]
        text = "1 if the NameServer took the last registration"
        shown.gauge("rocketflow_name_server_up", text, up, ("name_server",))
        shown.histogram("rocketflow_loop_lag_seconds", "Lag of the event loop", [((), parts.lag.histogram)])
        text = "Messages of one append to the store"
        shown.histogram("rocketflow_put_run_messages", text, [((), parts.gatherer.runs)])
        done = [((kind,), one.delivered) for kind, one in parts.deliveries.items()]
        shown.counter("rocketflow_delivered_total", "Delayed and timer messages that were delivered", done, ("kind",))
        failing = [((kind,), float(one.error is not None)) for kind, one in parts.deliveries.items()]
        shown.gauge("rocketflow_delivery_failing", "1 if the last attempt to deliver failed", failing, ("kind",))
        committed = [((kind,), one.commits) for kind, one in parts.jobs.totals.items()]
        shown.counter("rocketflow_job_commits_total", "Commits of jobs through the broker", committed, ("kind",))
        rows = [((kind,), one.rows) for kind, one in parts.jobs.totals.items()]
        shown.counter("rocketflow_job_rows_total", "Messages that jobs committed through the broker", rows, ("kind",))

    def _add_waiting(self, shown: Exposition) -> None:
        """Add transactions and delayed messages: what waits, and what has ended."""
        parts = self._from
        unread = parts.transactions.unread()
        text = "Half messages from the first that is not decided, also decided ones"
        shown.gauge("rocketflow_half_messages_open", text, [((), unread.half_messages)])
        text = "Op marks that no check of half messages has read"
        shown.gauge("rocketflow_op_marks_unread", text, [((), unread.op_marks)])
        text = "Questions to producers about half messages"
        shown.counter("rocketflow_transaction_checks_total", text, [((), parts.transactions.asked)])
        ends = (((topic,), count) for topic, count in parts.counts.committed.items())
        shown.counter("rocketmq_commit_messages_total", "Transactions that were committed", ends, ("topic",))
        ends = (((topic,), count) for topic, count in parts.counts.rolled_back.items())
        shown.counter("rocketmq_rollback_messages_total", "Transactions that were rolled back", ends, ("topic",))
        latency = (((topic,), one) for topic, one in parts.counts.commit_latency.items())
        text = "Time from a half message's birth to its commit (s)"
        shown.histogram("rocketmq_finish_message_latency", text, latency, ("topic",))
        half = (((topic,), count) for topic, count in parts.counts.half_messages.items())
        shown.gauge("rocketmq_half_messages", "Half messages that are not decided", half, ("topic",))
        waiting = [((str(level),), count) for level, count in self._delayed().items()]
        shown.gauge("rocketflow_delayed_messages", "Delayed messages that wait, by level", waiting, ("level",))

    def _delayed(self) -> dict[int, int]:
        """Return how many messages of each level wait; levels without a message are omitted."""
        store, delays = self._from.store, self._from.deliveries.get("delay")
        positions = delays.positions if isinstance(delays, ScheduleMessageService) else {}
        found = {}
        for level in range(1, len(store.config.delay_levels_ms) + 1):
            begin, end = store.bounds(SCHEDULE_TOPIC, level - 1)
            if end:
                found[level] = end - min(max(positions.get(level, 0), begin), end)
        return found

    def _add_clients(self, shown: Exposition) -> None:
        producers = Counter(
            ((one.language or OTHER).lower(), str(one.version))
            for members in self._from.producers.groups().values()
            for one in members
        )
        labels: tuple[str, ...] = ("language", "version", "protocol_type")
        rows = _limited(((*key, "remoting"), count) for key, count in producers.items())
        shown.gauge("rocketmq_producer_connections", "Connections of producers", rows, labels)
        consumers = Counter(
            (name, (one.language or OTHER).lower(), str(one.version), _MODES.get(group.consume_type, OTHER))
            for name, group in self._from.consumers.groups().items()
            for one in group.clients.values()
        )
        labels = ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system")
        rows = _limited(((*key, "remoting", _is_system("", key[0])), count) for key, count in consumers.items())
        shown.gauge("rocketmq_consumer_connections", "Connections of consumers", rows, labels)

    # --- in a thread

    def _render(self, shown: Exposition, committed: dict[tuple[str, str], dict[int, int]] | None) -> bytes:
        now_ms = int(time.time() * 1000)
        if committed is not None:
            self._lags = lags_of(self._from.store, committed, self._from.offsets.pull_offsets, now_ms)
            self._lags_until = time.monotonic() + LAG_SECONDS
        lags = [(_group(one.group, one.topic), one) for one in self._lags]
        text = "Messages that a group has not read"
        shown.gauge("rocketmq_consumer_lag_messages", text, ((key, one.messages) for key, one in lags), _GROUP)
        text = "Age of the oldest message that a group has not read (ms)"
        shown.gauge("rocketmq_consumer_lag_latency", text, ((key, one.age_ms) for key, one in lags), _GROUP)
        text = "Messages that a group has pulled and not consumed"
        shown.gauge("rocketmq_consumer_inflight_messages", text, ((key, one.in_flight) for key, one in lags), _GROUP)
        text = "Messages that a group has not pulled"
        shown.gauge("rocketmq_consumer_ready_messages", text, ((key, one.ready) for key, one in lags), _GROUP)
        text = "Age of the oldest message that a group has not pulled (ms)"
        waits = ((key, one.ready_age_ms) for key, one in lags)
        shown.gauge("rocketmq_consumer_queueing_latency", text, waits, _GROUP)
        self._add_timers(shown, now_ms)
        self._add_store(shown, self._from.store.statistics(), now_ms)
        return shown.render()

    def _add_timers(self, shown: Exposition, now_ms: int) -> None:
        timers = self._from.timers.read(now_ms)
        text = "Timer messages that were not taken in yet"
        shown.gauge("rocketmq_timer_enqueue_lag", text, [(_DISK, timers.enqueue_lag)], _STORE)
        text = "Age of the oldest timer message that was not taken in yet (ms)"
        shown.gauge("rocketmq_timer_enqueue_latency", text, [(_DISK, timers.enqueue_latency_ms)], _STORE)
        text = "Timer messages that wait for their time"
        shown.gauge("rocketmq_timer_dequeue_lag", text, [(_DISK, timers.waiting)], _STORE)
        text = "How late the delivery of timer messages is (s)"
        shown.gauge("rocketmq_timer_dequeue_latency", text, [(_DISK, timers.dequeue_latency_ms // 1000)], _STORE)
        taken = [(_DISK, timers.taken)]
        shown.counter("rocketmq_timer_enqueue_total", "Timer messages that were taken in", taken, _STORE)
        left = [(_DISK, timers.left)]
        shown.counter("rocketmq_timer_dequeue_total", "Timer messages that were delivered or rolled", left, _STORE)
        text = "Timer messages that are due in a period, by its end (s from now)"
        soon = [((*_DISK, str(bound)), count) for bound, count in zip(SOON_S, timers.soon, strict=False)]
        shown.gauge("rocketmq_timer_message_snapshot", text, soon, (*_STORE, "timer_bound_s"))
        text = "Time from a timer message's birth to its due time (s)"
        delays = (((*_DISK, topic), one) for topic, one in self._from.counts.delays.items())
        shown.histogram("rocketmq_delay_message_latency", text, delays, (*_STORE, "topic"))

    def _add_store(self, shown: Exposition, figures: dict[str, Any], now_ms: int) -> None:
        used = shutil.disk_usage(self._settings.store_path_root_dir).used
        shown.gauge("rocketmq_storage_size", "Bytes in use of the store's file system", [(_DISK, used)], _STORE)
        unsynced = [(_DISK, figures["remainHowManyDataToFlush"])]
        shown.gauge("rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not synced", unsynced, _STORE)
        unseen = [(_DISK, figures["dispatchBehindBytes"])]
        text = "Bytes of the log that readers do not see yet"
        shown.gauge("rocketmq_storage_dispatch_behind_bytes", text, unseen, _STORE)
        earliest_ms = self._from.store.earliest_store_ms()
        if earliest_ms is not None:
            age = [(_DISK, max(now_ms - earliest_ms, 0))]
            shown.gauge("rocketmq_storage_message_reserve_time", "Age of the oldest message (ms)", age, _STORE)
        events = (((code,), count) for code, count in figures["events"].items())
        shown.counter("rocketflow_events_total", "Events of the store by their code", events, ("code",))


def _group(group: str, topic: str) -> tuple[str, str, str, str]:
    is_retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return group, topic, str(is_retry).lower(), _is_system(topic, group)


def _is_system(topic: str, group: str = "") -> str:
    return str(is_system_topic(topic) or group.upper().startswith("CID_RMQ_SYS_")).lower()


def _limited(rows: Iterable[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], int]]:
    """Return the first MAX_CONNECTION_KINDS rows, and one with the sum of all others."""
    every = list(rows)
    kept, rest = every[:MAX_CONNECTION_KINDS], every[MAX_CONNECTION_KINDS:]
    if rest:
        kept.append(((OTHER,) * len(rest[0][0]), sum(count for _, count in rest)))
    return kept
