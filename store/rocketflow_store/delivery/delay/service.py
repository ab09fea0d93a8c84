"""The thread that delivers delayed messages of an open store: what a broker runs.

    service = ScheduleMessageService(store)
    ...
    service.stop()                                    # before store.close()

It delivers due messages every POLL_S. If that fails (a full disk, a failed sync), it reports RF-DELAY-HELD and tries
again BACK_OFF_S later; no message is delivered twice for that. Each store has its own service; a one-shot delivery
(`delivery.deliver_due`) may run beside it in the same process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.delivery.delay.delivery import DelayDelivery
from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.model.errors import StoreClosedError
from rocketflow_store.model.topic_names import SCHEDULE_TOPIC
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from rocketflow_store.engine.message_store import MessageStore

POLL_S: Final = 0.1
BACK_OFF_S: Final = 10.0
FIRST_S: Final = 1.0
"""RocketMQ's times, in seconds."""


class ScheduleMessageService:
    """Delivers until it is stopped. `delivered` and `skipped` count messages, `error` is the last attempt's error."""

    def __init__(
        self,
        store: MessageStore,
        *,
        poll_s: float = POLL_S,
        back_off_s: float = BACK_OFF_S,
        first_s: float = FIRST_S,
    ) -> None:
        self._store, self._back_off_s = store, back_off_s
        self._delivery = DelayDelivery(store)
        self.error: Exception | None = None
        self._thread = ServiceThread("schedule-message", self._step, poll_s, first_s=first_s)

    @property
    def delivered(self) -> int:
        return self._delivery.delivered

    @property
    def skipped(self) -> int:
        return self._delivery.skipped

    @property
    def positions(self) -> dict[int, int]:
        """Next queue offset by level, empty before the first delivery; does not block."""
        return self._delivery.known_positions

    def wake(self) -> None:
        """Look for due messages now; returns at once."""
        self._thread.wake()

    def stop(self) -> None:
        """End the thread and wait for it; a commit in progress is completed first."""
        self._thread.stop()

    def _step(self) -> None:
        try:
            self._delivery.deliver()
            self.error = None
        except StoreClosedError as error:  # the store was closed first: nothing to report
            self.error = error
        except Exception as error:
            self.error = error
            self._delivery.forget_positions()
            why = f"delayed messages are not delivered ({error}); next attempt in {self._back_off_s:g} s"
            events.report(events.DELAY_HELD, self._store.path, SCHEDULE_TOPIC, why)
            self._thread.pause(self._back_off_s)
