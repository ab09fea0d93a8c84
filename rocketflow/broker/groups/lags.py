"""Lags of consumer groups by topic, and how much of them is pulled already.

RocketMQ's source: broker/metrics/ConsumerLagCalculator.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store import StoreError

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

MAX_LAGS: Final = 500


class Lag(NamedTuple):
    """Messages that a group has not consumed of a topic: those that it has pulled (`in_flight`), and the others.

    Ages are those of the oldest message (ms), 0 without one.
    """

    group: str
    topic: str
    messages: int
    age_ms: int
    in_flight: int
    ready: int
    ready_age_ms: int


def lags_of(
    store: WritingStore,
    committed: Mapping[tuple[str, str], Mapping[int, int]],
    pull_offsets: Callable[[str, str], Mapping[int, int]],
    now_ms: int,
) -> list[Lag]:
    """Return the lag of each (topic, group) that has committed offsets, of MAX_LAGS at most; waits for the disk.

    `pull_offsets` returns where the next pulls of a group begin in a topic, by queue.
    """
    found = []
    for (topic, group), offsets in islice(sorted(committed.items()), MAX_LAGS):
        pulled = pull_offsets(group, topic)
        unread, ready, first_unread, first_ready = 0, 0, {}, {}
        for queue_id, offset in offsets.items():
            begin, end = _bounds(store, topic, queue_id)
            first = max(offset, begin)
            following = max(first, min(pulled.get(queue_id, 0), end))
            if first < end:
                unread += end - first
                first_unread[queue_id] = first
            if following < end:
                ready += end - following
                first_ready[queue_id] = following
        age_ms = _age_ms(store, topic, first_unread, now_ms)
        ready_age_ms = age_ms if first_ready == first_unread else _age_ms(store, topic, first_ready, now_ms)
        found.append(Lag(group, topic, unread, age_ms, unread - ready, ready, ready_age_ms))
    return found


def _age_ms(store: WritingStore, topic: str, offsets: Mapping[int, int], now_ms: int) -> int:
    """Return the age of the oldest of these messages, one of each queue; 0 without one."""
    return max(now_ms - min(store.stored_times(topic, offsets).values(), default=now_ms), 0)


def _bounds(store: WritingStore, topic: str, queue_id: int) -> tuple[int, int]:
    try:
        return store.bounds(topic, queue_id)
    except StoreError:
        return 0, 0
