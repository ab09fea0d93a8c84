"""Figures of the broker's timer messages: what waits, how late they are, and how many come and leave a second.

RocketMQ's source: store/timer/TimerMessageStore.java (getEnqueueBehind..., getDequeueBehind..., getAllCongestNum).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.spi.delivery import TimerMessageService
from rocketflow_store.spi.names import TIMER_TOPIC

if TYPE_CHECKING:
    from rocketflow_store.spi.broker import WritingStore

_WINDOW_S: Final = 10
"""Seconds over which rates are taken, as those of RocketMQ's PerfCounter."""


class TimerReading(NamedTuple):
    """The figures at one moment.

    Messages of the timer topic that were not taken in yet, and the age (ms) of the oldest of them, 0 without one;
    messages that wait, and how late (ms) delivery is; those that are due until the end of each period of SOON_S;
    messages that were taken in, and that were delivered or rolled, since the start.
    """

    enqueue_lag: int = 0
    enqueue_latency_ms: int = 0
    waiting: int = 0
    dequeue_latency_ms: int = 0
    soon: tuple[int, ...] = ()
    taken: int = 0
    left: int = 0


class TimerFigures:
    """Figures of the timer service among `deliveries`, zeros before it has started."""

    def __init__(self, store: WritingStore, deliveries: Mapping[str, object]) -> None:
        self._store = store
        self._deliveries = deliveries
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=_WINDOW_S + 1)
        """Time (s), messages taken in, messages delivered or rolled, each second."""

    async def watch(self) -> None:
        """Take a sample of the counts every second, until cancelled."""
        while True:
            self.sample(time.monotonic())
            await asyncio.sleep(1)

    def sample(self, now_s: float) -> None:
        """Take a sample of the counts; rates are those between the first and the last that are kept."""
        service = self._service()
        if service is not None:
            self._samples.append((now_s, *_flow(service)))

    def rates(self) -> tuple[float, float]:
        """Return how many messages were taken in, and delivered or rolled, a second over the last ten."""
        if len(self._samples) < 2:
            return 0.0, 0.0
        (began, taken, left), (ended, last_taken, last_left) = self._samples[0], self._samples[-1]
        return (last_taken - taken) / (ended - began), (last_left - left) / (ended - began)

    def read(self, now_ms: int) -> TimerReading:
        """Return the figures of this moment. Waits for the disk."""
        service = self._service()
        if service is None:
            return TimerReading()
        state = service.state()
        _, end = self._store.bounds(TIMER_TOPIC, 0)
        lag = max(end - state.taken_to, 0)
        stored_ms = self._store.stored_times(TIMER_TOPIC, {0: state.taken_to}).get(0, now_ms) if lag else now_ms
        late_ms = max(now_ms - state.read_ms, 0) if state.read_ms else 0
        return TimerReading(lag, max(now_ms - stored_ms, 0), state.waiting, late_ms, state.soon, *_flow(service))

    def _service(self) -> TimerMessageService | None:
        found = self._deliveries.get("timer")
        return found if isinstance(found, TimerMessageService) else None


def _flow(service: TimerMessageService) -> tuple[int, int]:
    """Return how many messages were taken in, and how many were delivered or rolled."""
    counts = service.counts
    return counts.taken, counts.delivered + counts.rolled
