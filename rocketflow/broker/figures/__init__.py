"""Figures: what the broker counts, for operators' requests and for Prometheus.

| module | content |
|---|---|
| `counts` | counts of messages by topic and group |
| `stats` | counts over the last minute, hour and day, for mqadmin's `statsAll` |
| `metrics`, `labels` | figures for Prometheus, and those that the other folders add |
| `runtime_figures`, `timer_figures` | figures for mqadmin's `brokerStatus` and `clusterList`, those of timer messages |
| `parts` | these together |
"""

from __future__ import annotations

from rocketflow.broker.figures.counts import RUN_BOUNDS, MessageCounts
from rocketflow.broker.figures.labels import GROUP_LABELS, OTHER, group_labels, is_system_label, limited
from rocketflow.broker.figures.parts import FigureParts
from rocketflow.broker.figures.stats import NAMES, BrokerStats

__all__ = [
    "GROUP_LABELS",
    "NAMES",
    "OTHER",
    "RUN_BOUNDS",
    "BrokerStats",
    "FigureParts",
    "MessageCounts",
    "group_labels",
    "is_system_label",
    "limited",
]
