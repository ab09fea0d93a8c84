"""The thread that delivers the timer messages of a store that is open for writing, like a broker's."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketflow_store.delivery.timer.shared_delivery import shared_delivery_of
from rocketflow_store.delivery.timer.timer_delivery import TimerDelivery
from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.model.errors import StoreConfigError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rocketflow_store.delivery.timer.timer_commits import TimerCounts
    from rocketflow_store.engine.message_store import MessageStore

_STEPS_A_TICK: Final = 10


SOON_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)
"""Periods from now (s), each counted from the end of the one before: RocketMQ's (TimerMetrics.java)."""


class TimerState(NamedTuple):
    """The progress of a delivery: `read_ms` is the first tick that is not delivered, 0 before the first step.

    Messages before the queue offset `taken_to` of the timer topic were taken in; `waiting` of them wait, `soon` of them
    until the end of each period of SOON_S.
    """

    read_ms: int
    taken_to: int
    waiting: int
    soon: tuple[int, ...]


class TimerMessageService:
    """Delivers due messages from construction until `stop` (before the store is closed). A context manager.

    Every `timerFlushIntervalMs` the timer's files are written, so that a broker of RocketMQ that starts after a kill
    repeats the deliveries of that interval at most; `stop` writes them completely.
    """

    def __init__(self, store: MessageStore, run_id: str = "") -> None:
        self._store = store
        self._shared = shared_delivery_of(store)
        with self._shared.lock:
            if self._shared.delivery is not None:
                raise StoreConfigError(
                    "store", store.path, "has a TimerMessageService already; stop that service first"
                )
            self._delivery = self._shared.delivery = TimerDelivery(store, run_id)
            store.count_timers_by(self._delivery.waiting_at)
        self._flushed_ms = store.config.clock.now_ms()
        self._unflushed = False
        interval_s = store.config.timer_precision_ms / 1000 / _STEPS_A_TICK
        self._thread = ServiceThread("timer-message", self._step, interval_s, first_s=0.0)

    def _step(self) -> None:
        with self._shared.lock:
            self._unflushed |= self._delivery.step()
            now_ms = self._store.config.clock.now_ms()
            if self._unflushed and abs(now_ms - self._flushed_ms) >= self._store.config.timer_flush_interval_ms:
                self._delivery.flush()
                self._flushed_ms, self._unflushed = now_ms, False

    @property
    def counts(self) -> TimerCounts:
        """Counts of all steps so far."""
        return self._delivery.counts

    @property
    def delivered(self) -> int:
        """Number of messages that were delivered so far."""
        return self.counts.delivered

    def state(self) -> TimerState:
        """Return how far the service is and what waits, as it is now; it takes milliseconds. Any thread may call it."""
        read_ms, taken_to = self._delivery.position
        times, counts = self._delivery.waiting()
        ahead_ms = times - self._store.config.clock.now_ms()
        before = [int(counts[ahead_ms < 1000 * one].sum()) for one in SOON_S]
        soon = tuple(later - sooner for sooner, later in pairwise([0, *before]))
        return TimerState(read_ms, taken_to, int(counts.sum()), soon)

    def waiting_at(self, timestamp_ms: int) -> int:
        """Return how many of the messages taken in wait in the tick of `timestamp_ms`."""
        return self._delivery.waiting_at(timestamp_ms)

    @property
    def error(self) -> Exception | None:
        """The error that the last step raised, or None; the service repeats the step."""
        return self._thread.error

    def wake(self) -> None:
        """Run the next step now."""
        self._thread.wake()

    def stop(self) -> None:
        """End the thread, and write the timer's files so that the next writer continues from them."""
        self._thread.stop()
        with self._shared.lock:
            if self._shared.delivery is not self._delivery:
                return
            try:
                self._delivery.finish()
            finally:
                self._shared.delivery = None
                self._store.count_timers_by(None)
                self._delivery.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
