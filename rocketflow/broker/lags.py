"""Lags of consumer groups by topic.

RocketMQ's source: broker/metrics/ConsumerLagCalculator.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store import StoreError

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

MAX_LAGS: Final = 1_000


class Lag(NamedTuple):
    """Messages that a group has not read of a topic, and the age (ms) of the oldest of them, 0 without one."""

    group: str
    topic: str
    messages: int
    age_ms: int


def lags_of(store: WritingStore, committed: Mapping[tuple[str, str], Mapping[int, int]], now_ms: int) -> list[Lag]:
    """Return the lag of each (topic, group) that has committed offsets, of MAX_LAGS at most; waits for the disk."""
    found = []
    for (topic, group), offsets in islice(sorted(committed.items()), MAX_LAGS):
        unread, first_unread = 0, {}
        for queue_id, offset in offsets.items():
            begin, end = _bounds(store, topic, queue_id)
            first = max(offset, begin)
            if first < end:
                unread += end - first
                first_unread[queue_id] = first
        oldest_ms = min(store.stored_times(topic, first_unread).values(), default=now_ms)
        found.append(Lag(group, topic, unread, max(now_ms - oldest_ms, 0)))
    return found


def _bounds(store: WritingStore, topic: str, queue_id: int) -> tuple[int, int]:
    try:
        return store.bounds(topic, queue_id)
    except StoreError:
        return 0, 0
