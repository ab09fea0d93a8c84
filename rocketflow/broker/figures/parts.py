"""The counts of a broker, and the figures that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rocketflow.aio.loop import monotonic_ms
from rocketflow.aio.loop_lag import LoopLag
from rocketflow.aio.rpc_latency import RpcLatency
from rocketflow.broker.figures.counts import Counts, MessageCounts
from rocketflow.broker.figures.runtime_figures import RuntimeFigures
from rocketflow.broker.figures.stats import BrokerStats
from rocketflow.broker.figures.timer_figures import TimerFigures
from rocketflow.broker.parts import Parts, Services

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.figures.metrics import BrokerMetrics
    from rocketflow.broker.settings import BrokerSettings
    from rocketflow_store.spi.broker import WritingStore
    from rocketflow_store.spi.delivery import ScheduleMessageService, TimerMessageService

    DueService = ScheduleMessageService | TimerMessageService


class FigureParts(Parts):
    """Counts for mqadmin, with metrics also those for Prometheus; `others` have figures of their own.

    `deliveries` are the services that deliver waiting messages, by kind, once they run.
    """

    def __init__(self, store: WritingStore, settings: BrokerSettings, deliveries: Mapping[str, DueService]) -> None:
        super().__init__()
        self.others: list[Parts] = []
        self.stats = BrokerStats(settings.broker_cluster_name)
        self.lag = LoopLag()
        self.timers = TimerFigures(store, deliveries)
        self.runtime = RuntimeFigures(store, self.timers, self.others)
        self.exported = Counts() if settings.exports_metrics else None
        self.latency = RpcLatency() if settings.exports_metrics else None
        self.counts = MessageCounts(self.stats, self.exported)
        self.metrics: BrokerMetrics | None = None
        if self.exported is not None:
            from rocketflow.broker.figures.metrics import BrokerMetrics

            self.metrics = BrokerMetrics(store, settings, deliveries, self.timers, self.exported, self.others)

    def services(self) -> Services:
        """Return the watches that take samples."""
        return (
            *(self.lag.watch(), self.stats.watch(monotonic_ms)),
            *(self.timers.watch(), self.runtime.watch_midnights()),
        )

    def add_figures(self, shown: Exposition) -> None:
        """Add the times of requests, and how late the event loop is."""
        if self.latency is not None:
            shown.rpc_latency(self.latency)
        shown.histogram("rocketflow_loop_lag_seconds", "Lag of the event loop", [((), self.lag.histogram)])
