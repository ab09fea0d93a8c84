"""The broker's figures under RocketMQ's names, converted from plain counts when they are asked for.

RocketMQ's source: broker/metrics/BrokerMetricsManager.java, store/metrics/DefaultStoreMetricsManager.java,
remoting/metrics/RemotingMetricsManager.java, broker/metrics/ConsumerLagCalculator.java.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rocketflow.aio.exposition import Exposition
from rocketflow.broker.figures.labels import GROUP_LABELS, group_labels, is_system_label
from rocketflow_store.spi.delivery import SOON_S, ScheduleMessageService
from rocketflow_store.spi.names import SCHEDULE_TOPIC

if TYPE_CHECKING:
    from rocketflow.broker.figures.counts import Counts
    from rocketflow.broker.figures.timer_figures import TimerFigures
    from rocketflow.broker.parts import Parts
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore
    from rocketflow_store.spi.delivery import TimerMessageService

_MESSAGE: Final = ("topic", "message_type", "is_system")
_STORE: Final = ("storage_type", "storage_medium")
_DISK: Final = ("local", "disk")


class BrokerMetrics:
    """Makes the text of `/metrics`: at most 10,000 series, as each table with names of topics or groups ends.

    `others` add the figures of their own.
    """

    def __init__(
        self,
        store: WritingStore,
        settings: BrokerSettings,
        deliveries: Mapping[str, ScheduleMessageService | TimerMessageService],
        timers: TimerFigures,
        counts: Counts,
        others: Sequence[Parts],
    ) -> None:
        self._store, self._settings, self._others = store, settings, others
        self._deliveries, self._timers, self._counts = deliveries, timers, counts

    async def render(self) -> bytes:
        """Return the text: plain values are taken in the loop, all else happens in a thread."""
        settings = self._settings
        shown = Exposition(cluster=settings.broker_cluster_name, node_type="broker", node_id=settings.broker_name)
        self._add_messages(shown)
        self._add_broker(shown)
        self._add_waiting(shown)
        slow = [found for one in self._others if (found := one.add_figures(shown)) is not None]
        return await asyncio.to_thread(self._render, shown, slow)

    def _add_messages(self, shown: Exposition) -> None:
        counts = self._counts
        sent = [((topic, kind, is_system_label(topic)), one) for (topic, kind), one in counts.sent.items()]
        pulled = [(group_labels(group, topic), one) for (group, topic), one in counts.pulled.items()]
        text = "Messages that clients sent"
        shown.counter("rocketmq_messages_in_total", text, ((key, one.messages) for key, one in sent), _MESSAGE)
        text = "Bytes of bodies and properties that clients sent"
        shown.counter("rocketmq_throughput_in_total", text, ((key, one.bytes) for key, one in sent), _MESSAGE)
        text = "Bytes of body and properties of a message"
        shown.histogram("rocketmq_message_size", text, ((key, one.sizes) for key, one in sent), _MESSAGE)
        text = "Messages that consumers got"
        shown.counter("rocketmq_messages_out_total", text, ((key, one.messages) for key, one in pulled), GROUP_LABELS)
        text = "Bytes of records that consumers got"
        shown.counter("rocketmq_throughput_out_total", text, ((key, one.bytes) for key, one in pulled), GROUP_LABELS)
        text = "Messages that went to the dead letters of a group"
        dead = (((group,), count) for group, count in counts.dead.items())
        shown.counter("rocketmq_send_to_dlq_messages_total", text, dead, ("consumer_group",))

    def _add_broker(self, shown: Exposition) -> None:
        waiting = [((kind,), count) for one in self._others for kind, count in one.waiting().items()]
        shown.gauge("rocketmq_processor_watermark", "Requests that wait or run in a thread", waiting, ("processor",))
        shown.gauge("rocketmq_broker_permission", "brokerPermission", [((), self._settings.broker_permission)])
        done = [((kind,), one.delivered) for kind, one in self._deliveries.items()]
        shown.counter("rocketflow_delivered_total", "Delayed and timer messages that were delivered", done, ("kind",))
        failing = [((kind,), float(one.error is not None)) for kind, one in self._deliveries.items()]
        shown.gauge("rocketflow_delivery_failing", "1 if the last attempt to deliver failed", failing, ("kind",))

    def _add_waiting(self, shown: Exposition) -> None:
        """Add transactions and delayed messages: what waits, and what has ended."""
        ends = (((topic,), count) for topic, count in self._counts.committed.items())
        shown.counter("rocketmq_commit_messages_total", "Transactions that were committed", ends, ("topic",))
        ends = (((topic,), count) for topic, count in self._counts.rolled_back.items())
        shown.counter("rocketmq_rollback_messages_total", "Transactions that were rolled back", ends, ("topic",))
        latency = (((topic,), one) for topic, one in self._counts.commit_latency.items())
        text = "Time from a half message's birth to its commit (s)"
        shown.histogram("rocketmq_finish_message_latency", text, latency, ("topic",))
        half = (((topic,), count) for topic, count in self._counts.half_messages.items())
        shown.gauge("rocketmq_half_messages", "Half messages that are not decided", half, ("topic",))
        waiting = [((str(level),), count) for level, count in self._delayed().items()]
        shown.gauge("rocketflow_delayed_messages", "Delayed messages that wait, by level", waiting, ("level",))

    def _delayed(self) -> dict[int, int]:
        """Return how many messages of each level wait; levels without a message are omitted."""
        store, delays = self._store, self._deliveries.get("delay")
        positions = delays.positions if isinstance(delays, ScheduleMessageService) else {}
        found = {}
        for level in range(1, len(store.config.delay_levels_ms) + 1):
            begin, end = store.bounds(SCHEDULE_TOPIC, level - 1)
            if end:
                found[level] = end - min(max(positions.get(level, 0), begin), end)
        return found

    # --- in a thread

    def _render(self, shown: Exposition, slow: Iterable[Callable[[], None]]) -> bytes:
        now_ms = int(time.time() * 1000)
        for one in slow:
            one()
        self._add_timers(shown, now_ms)
        self._add_store(shown, self._store.statistics(), now_ms)
        return shown.render()

    def _add_timers(self, shown: Exposition, now_ms: int) -> None:
        timers = self._timers.read(now_ms)
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
        delays = (((*_DISK, topic), one) for topic, one in self._counts.delays.items())
        shown.histogram("rocketmq_delay_message_latency", text, delays, (*_STORE, "topic"))

    def _add_store(self, shown: Exposition, figures: dict[str, Any], now_ms: int) -> None:
        used = shutil.disk_usage(self._settings.store_path_root_dir).used
        shown.gauge("rocketmq_storage_size", "Bytes in use of the store's file system", [(_DISK, used)], _STORE)
        unsynced = [(_DISK, figures["remainHowManyDataToFlush"])]
        shown.gauge("rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not synced", unsynced, _STORE)
        unseen = [(_DISK, figures["dispatchBehindBytes"])]
        text = "Bytes of the log that readers do not see yet"
        shown.gauge("rocketmq_storage_dispatch_behind_bytes", text, unseen, _STORE)
        earliest_ms = self._store.earliest_store_ms()
        if earliest_ms is not None:
            age = [(_DISK, max(now_ms - earliest_ms, 0))]
            shown.gauge("rocketmq_storage_message_reserve_time", "Age of the oldest message (ms)", age, _STORE)
        events = (((code,), count) for code, count in figures["events"].items())
        shown.counter("rocketflow_events_total", "Events of the store by their code", events, ("code",))
