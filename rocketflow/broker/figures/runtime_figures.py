"""Figures of a broker under the names that mqadmin's `brokerStatus` and `clusterList` read.

RocketMQ's source: broker/processor/AdminBrokerProcessor.java (prepareRuntimeInfo), store/stats/BrokerStats.java.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from rocketflow.process.properties import property_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketflow.broker.figures.timer_figures import TimerFigures, TimerReading
    from rocketflow.broker.parts import Parts
    from rocketflow_store.spi.broker import WritingStore

_RATES: Final = ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps")

_NONE: Final = (
    *("pullThreadPoolQueueHeadWaitTimeMills", "queryThreadPoolQueueHeadWaitTimeMills"),
    *("ackThreadPoolQueueSize", "ackThreadPoolQueueHeadWaitTimeMills"),
)
"""Figures of queues that only RocketMQ's broker has: pulls and queries run at once."""


class DayTotals:
    """Numbers of messages put and got since the start, and those that the last two midnights saw."""

    def __init__(self) -> None:
        self.put_yesterday = self.put_today = 0
        self.got_yesterday = self.got_today = 0

    def midnight(self, put: int, got: int) -> None:
        """Take note of the totals at midnight."""
        self.put_yesterday, self.put_today = self.put_today, put
        self.got_yesterday, self.got_today = self.got_today, got


class RuntimeFigures:
    """The table of request 28; `others` add figures of their own."""

    def __init__(self, store: WritingStore, timers: TimerFigures, others: Sequence[Parts]) -> None:
        self._timers = timers
        self._store = store
        self._others = others
        self._days = DayTotals()

    async def watch_midnights(self) -> None:
        """Take note of the totals at every midnight of the local time, until cancelled."""
        day = time.localtime()[:3]
        while True:
            await asyncio.sleep(seconds_to_midnight(time.time()))
            today = time.localtime()[:3]
            if today == day:  # a clock that was set back, or a sleep that ended early
                continue
            day = today
            figures = await asyncio.to_thread(self._store.statistics)
            self._days.midnight(figures["putMessageTimesTotal"], figures["getMessageTransferredMsgCount"])

    async def table(self) -> dict[str, str]:
        """Return the figures as texts."""
        figures, earliest_ms, timers = await asyncio.to_thread(self._of_store)
        enqueue_rate, dequeue_rate = self._timers.rates()
        rates = {name: _rates(figures[name]) for name in _RATES}
        days = self._days
        return {
            **{name: property_text(value) for name, value in figures.items() if not isinstance(value, dict | list)},
            **rates,
            "getTransferedTps": rates["getTransferredTps"],  # as RocketMQ before 5.0 spells it
            "msgPutTotalTodayNow": str(figures["putMessageTimesTotal"]),
            "msgPutTotalTodayMorning": str(days.put_today),
            "msgPutTotalYesterdayMorning": str(days.put_yesterday),
            "msgGetTotalTodayNow": str(figures["getMessageTransferredMsgCount"]),
            "msgGetTotalTodayMorning": str(days.got_today),
            "msgGetTotalYesterdayMorning": str(days.got_yesterday),
            **{name: text for one in self._others for name, text in one.runtime_figures().items()},
            "timerReadBehind": str(timers.dequeue_latency_ms // 1000),
            "timerOffsetBehind": str(timers.enqueue_lag),
            "timerCongestNum": str(timers.waiting),
            "timerEnqueueTps": str(enqueue_rate),
            "timerDequeueTps": str(dequeue_rate),
            "earliestMessageTimeStamp": str(-1 if earliest_ms is None else earliest_ms),
            "runtime": _duration(int(figures["runtime"]) // 1000),
            "remainHowManyDataToFlush": _size(figures["remainHowManyDataToFlush"]),
            **dict.fromkeys(_NONE, "0"),
        }

    def _of_store(self) -> tuple[dict[str, Any], int | None, TimerReading]:
        timers = self._timers.read(int(time.time() * 1000))
        return self._store.statistics(), self._store.earliest_store_ms(), timers


def seconds_to_midnight(now: float) -> float:
    """Return the time from `now` (s since 1970) until the next day of the local time begins, at least one second."""
    year, month, day = time.localtime(now)[:3]
    return max(1.0, time.mktime((year, month, day + 1, 0, 0, 0, 0, 0, -1)) - now)


def _duration(seconds: int) -> str:
    """Return a time as RocketMQ writes it."""
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size(count: int) -> str:
    """Return a number of bytes as RocketMQ writes it."""
    unit = max(0, (count.bit_length() - 1) // 10)
    return f"{count / 1024**unit:.1f} {'KMGTPE'[unit - 1]}iB" if unit else f"{count} B"


def _rates(values: list[float | None]) -> str:
    """Return the rates over 10, 60 and 600 s; 0.0 while a window is not full, because mqadmin needs numbers."""
    return " ".join(str(value or 0.0) for value in values)
