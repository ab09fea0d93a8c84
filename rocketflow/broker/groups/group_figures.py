"""Figures of groups for Prometheus: connections of clients, and lags.

RocketMQ's source: broker/metrics/BrokerMetricsManager.java, ConsumerLagCalculator.java.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rocketflow.broker.figures import GROUP_LABELS, OTHER, group_labels, is_system_label, limited
from rocketflow.broker.groups.lags import Lag, lags_of

if TYPE_CHECKING:
    from rocketflow.aio.exposition import Exposition
    from rocketflow.broker.groups.tables import Tables
    from rocketflow_store.spi.broker import WritingStore

LAG_SECONDS: Final = 10.0
"""How long computed lags of groups are used."""

_MODES: Final = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}

_LAGS: Final = (
    ("lag_messages", "Messages that a group has not read", "messages"),
    ("lag_latency", "Age of the oldest message that a group has not read (ms)", "age_ms"),
    ("inflight_messages", "Messages that a group has pulled and not consumed", "in_flight"),
    ("ready_messages", "Messages that a group has not pulled", "ready"),
    ("queueing_latency", "Age of the oldest message that a group has not pulled (ms)", "ready_age_ms"),
)
"""Figures of a lag: the end of the name, the text, and the field of `Lag`."""


class GroupFigures:
    """Figures of groups; lags are computed in a thread and kept for a while."""

    def __init__(self, store: WritingStore, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        self._lags: list[Lag] = []
        self._lags_until = 0.0

    def add(self, shown: Exposition) -> Callable[[], None]:
        """Add plain values; return what adds the lags, and waits for the disk."""
        shown.gauge("rocketmq_consumer_group_number", "Consumer groups", [((), len(self._tables.groups.all()))])
        self._add_clients(shown)
        committed = self._tables.offsets.all() if time.monotonic() >= self._lags_until else None
        return lambda: self._add_lags(shown, committed)

    def _add_clients(self, shown: Exposition) -> None:
        producers = Counter(
            ((one.language or OTHER).lower(), str(one.version))
            for members in self._tables.producers.groups().values()
            for one in members
        )
        labels: tuple[str, ...] = ("language", "version", "protocol_type")
        rows = limited(((*key, "remoting"), count) for key, count in producers.items())
        shown.gauge("rocketmq_producer_connections", "Connections of producers", rows, labels)
        consumers = Counter(
            (name, (one.language or OTHER).lower(), str(one.version), _MODES.get(group.consume_type, OTHER))
            for name, group in self._tables.consumers.groups().items()
            for one in group.clients.values()
        )
        labels = ("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system")
        rows = limited(((*key, "remoting", is_system_label("", key[0])), count) for key, count in consumers.items())
        shown.gauge("rocketmq_consumer_connections", "Connections of consumers", rows, labels)

    def _add_lags(self, shown: Exposition, committed: dict[tuple[str, str], dict[int, int]] | None) -> None:
        if committed is not None:
            self._lags = lags_of(self._store, committed, self._tables.offsets.pull_offsets, int(time.time() * 1000))
            self._lags_until = time.monotonic() + LAG_SECONDS
        lags = [(group_labels(one.group, one.topic), one) for one in self._lags]
        for name, text, field in _LAGS:
            shown.gauge(
                f"rocketmq_consumer_{name}", text, ((key, getattr(one, field)) for key, one in lags), GROUP_LABELS
            )
