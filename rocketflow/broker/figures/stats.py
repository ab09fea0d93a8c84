"""Counts by topic and group over the last minute, hour and day, for mqadmin's `statsAll` and `consumerProgress`.

RocketMQ's source: store/stats/BrokerStatsManager.java, common/stats/StatsItem.java, StatsItemSet.java.
"""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.spi.names import is_system_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SEND_BACK_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
OWN_PUT_NUMS: Final = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
OWN_GET_NUMS: Final = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
DEAD_NUMS: Final = "SNDBCK2DLQ_TIMES"
NAMES: Final = (
    *(TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, SEND_BACK_NUMS),
    *(BROKER_PUT_NUMS, BROKER_GET_NUMS, OWN_PUT_NUMS, OWN_GET_NUMS, DEAD_NUMS),
)
"""RocketMQ's names of the counts; the key is a topic, `topic@group`, the cluster's name for the four of BROKER.

That of SNDBCK2DLQ_TIMES is `null@topic@group@SEND_BACK_TO_DLQ`, where RocketMQ has the owner of an account.
"""

_SYSTEM_PUT_NUMS: Final = "put nums of system topics"
_SYSTEM_GET_NUMS: Final = "get nums of system topics"
_PARTS: Final = {
    BROKER_PUT_NUMS: (OWN_PUT_NUMS, _SYSTEM_PUT_NUMS),
    BROKER_GET_NUMS: (OWN_GET_NUMS, _SYSTEM_GET_NUMS),
}
"""Counts that are the sums of others."""


class Window(NamedTuple):
    """A period over which counts are compared: a sum is noted every `every_ms`, and the last `most` are kept."""

    name: str
    every_ms: int
    most: int


WINDOWS: Final = (Window("statsMinute", 10_000, 7), Window("statsHour", 600_000, 7), Window("statsDay", 3_600_000, 25))

_AT_ONCE: Final = 2_000
"""Items that are noted before other work of the loop comes in between."""


class Item:
    """One count: the sum of what was added, and how often something was added."""

    __slots__ = ("_noted", "times", "value")

    def __init__(self) -> None:
        self.value = self.times = 0
        self._noted: tuple[deque[tuple[int, int, int]], ...] = tuple(deque(maxlen=one.most) for one in WINDOWS)

    def note(self, window: int, now_ms: int) -> None:
        """Note the sums of this time for a window, by its number in WINDOWS."""
        noted = self._noted[window]
        if not noted:
            noted.append((now_ms - WINDOWS[window].every_ms, 0, 0))
        noted.append((now_ms, self.value, self.times))

    def within(self, window: int) -> tuple[int, int, int]:
        """Return over a window the sum, how often something was added, and the time (ms) that has passed."""
        noted = self._noted[window]
        if not noted:
            return 0, 0, 0
        (began_ms, value, times), (now_ms, last_value, last_times) = noted[0], noted[-1]
        return last_value - value, last_times - times, now_ms - began_ms

    def figures(self, window: int) -> dict[str, float]:
        """Return the sum over a window, the sum a second, and the average that was added at once."""
        return figures([self], window)


def figures(items: Sequence[Item], window: int) -> dict[str, float]:
    """Return the figures of several counts together: sum, sum a second, and average that was added at once."""
    parts = [one.within(window) for one in items]
    total, count = sum(one[0] for one in parts), sum(one[1] for one in parts)
    passed_ms = max(one[2] for one in parts)
    return {
        "sum": total,
        "tps": total * 1000 / passed_ms if passed_ms > 0 else 0.0,
        "avgpt": total / count if count else 0.0,
    }


def _add_each(items: tuple[Item, Item, Item], messages: int, size: int, requests: int = 1) -> None:
    """Add to the counts of messages, bytes, and the broker's messages."""
    nums, sizes, total = items
    nums.value += messages
    nums.times += requests
    sizes.value += size
    sizes.times += requests
    total.value += messages
    total.times += requests


class BrokerStats:
    """The counts of a broker of the cluster `cluster`. Counts of deleted topics and groups are removed."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._items: dict[str, dict[str, Item]] = {
            name: {} for name in (*NAMES, _SYSTEM_PUT_NUMS, _SYSTEM_GET_NUMS) if name not in _PARTS
        }
        self._sent: dict[str, tuple[Item, Item, Item]] = {}
        """The items of `sent` by topic."""
        self._pulled: dict[tuple[str, str], tuple[Item, Item, Item]] = {}
        """The items of `pulled` by topic and group."""

    def sent(self, topic: str, messages: int, size: int, requests: int = 1) -> None:
        """Count the messages of some requests that were stored; `size` is that of their records in bytes."""
        items = self._sent.get(topic)
        if items is None:
            total = _SYSTEM_PUT_NUMS if is_system_topic(topic) else OWN_PUT_NUMS
            items = (
                self._item(TOPIC_PUT_NUMS, topic),
                self._item(TOPIC_PUT_SIZE, topic),
                self._item(total, self._cluster),
            )
            self._sent[topic] = items
        _add_each(items, messages, size, requests)

    def pulled(self, topic: str, group: str, messages: int, size: int) -> None:
        """Count the messages of one answer to a group; `size` is that of their records in bytes."""
        items = self._pulled.get((topic, group))
        if items is None:
            key, total = f"{topic}@{group}", _SYSTEM_GET_NUMS if is_system_topic(topic) else OWN_GET_NUMS
            items = self._item(GROUP_GET_NUMS, key), self._item(GROUP_GET_SIZE, key), self._item(total, self._cluster)
            self._pulled[topic, group] = items
        _add_each(items, messages, size)

    def sent_back(self, topic: str, group: str, *, is_dead: bool = False) -> None:
        """Count a message that a consumer sent back; with `is_dead` it is a dead letter now."""
        self._add(SEND_BACK_NUMS, f"{topic}@{group}", 1)
        if is_dead:
            self._add(DEAD_NUMS, f"null@{topic}@{group}@SEND_BACK_TO_DLQ", 1)

    def _add(self, name: str, key: str, value: int) -> None:
        item = self._item(name, key)
        item.value += value
        item.times += 1

    def _item(self, name: str, key: str) -> Item:
        item = self._items[name].get(key)
        if item is None:
            item = self._items[name][key] = Item()
        return item

    def view(self, name: str, key: str) -> dict[str, dict[str, float]] | None:
        """Return the figures of every window, None if nothing is counted under this name and key."""
        tables = [self._items.get(one, {}) for one in _PARTS.get(name, (name,))]
        items = [table[key] for table in tables if key in table]
        return {one.name: figures(items, at) for at, one in enumerate(WINDOWS)} if items else None

    def put_rate(self, topic: str) -> float:
        """Return how many messages of a topic are stored a second, over the last minute."""
        return self._rate(TOPIC_PUT_NUMS, topic)

    def get_rate(self, topic: str, group: str) -> float:
        """Return how many messages of a topic a group gets a second, over the last minute."""
        return self._rate(GROUP_GET_NUMS, f"{topic}@{group}")

    def _rate(self, name: str, key: str) -> float:
        item = self._items[name].get(key)
        return 0.0 if item is None else item.figures(0)["tps"]

    def topic_deleted(self, topic: str) -> None:
        """Remove the counts of a topic."""
        self._sent.pop(topic, None)
        for name in (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE):
            self._items[name].pop(topic, None)
        self._pulled = {key: one for key, one in self._pulled.items() if key[0] != topic}
        self._remove(lambda key: key.startswith((f"{topic}@", f"null@{topic}@")))

    def group_deleted(self, group: str) -> None:
        """Remove the counts of a group."""
        self._pulled = {key: one for key, one in self._pulled.items() if key[1] != group}
        self._remove(lambda key: key.endswith((f"@{group}", f"@{group}@SEND_BACK_TO_DLQ")))

    def _remove(self, is_removed: Callable[[str], bool]) -> None:
        for name in (GROUP_GET_NUMS, GROUP_GET_SIZE, SEND_BACK_NUMS, DEAD_NUMS):
            for key in [one for one in self._items[name] if is_removed(one)]:
                del self._items[name][key]

    def note(self, window: int, now_ms: int) -> Iterator[None]:
        """Note the sums of all counts for a window; yield after every 2,000 of them."""
        items = iter([item for table in self._items.values() for item in table.values()])
        while part := list(islice(items, _AT_ONCE)):
            for item in part:
                item.note(window, now_ms)
            yield

    async def watch(self, now_ms: Callable[[], int]) -> None:
        """Note the sums of every window at its times, until cancelled."""
        step_ms = WINDOWS[0].every_ms
        passed_ms = 0
        while True:
            await asyncio.sleep(step_ms / 1000)
            passed_ms += step_ms
            for number, window in enumerate(WINDOWS):
                if passed_ms % window.every_ms == 0:
                    for _ in self.note(number, now_ms()):
                        await asyncio.sleep(0)
