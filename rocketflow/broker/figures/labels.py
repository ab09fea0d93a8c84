"""Labels of figures for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rocketflow_store.spi.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

OTHER: Final = "other"
"""The name of all topics and groups that come after the limit of a table."""

MAX_CONNECTION_KINDS: Final = 250

GROUP_LABELS: Final = ("consumer_group", "topic", "is_retry", "is_system")


def group_labels(group: str, topic: str) -> tuple[str, str, str, str]:
    """Return the labels of a group's figure of a topic."""
    is_retry = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return group, topic, str(is_retry).lower(), is_system_label(topic, group)


def is_system_label(topic: str, group: str = "") -> str:
    """Return whether a topic or a group is the broker's own, as a label."""
    return str(is_system_topic(topic) or group.upper().startswith("CID_RMQ_SYS_")).lower()


def limited(rows: Iterable[tuple[tuple[str, ...], int]]) -> list[tuple[tuple[str, ...], int]]:
    """Return the first MAX_CONNECTION_KINDS rows, and one with the sum of all others."""
    every = list(rows)
    kept, rest = every[:MAX_CONNECTION_KINDS], every[MAX_CONNECTION_KINDS:]
    if rest:
        kept.append(((OTHER,) * len(rest[0][0]), sum(count for _, count in rest)))
    return kept
