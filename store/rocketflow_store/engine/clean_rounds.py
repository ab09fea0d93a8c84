"""Rounds of retention: those of the thread `clean-resource`, and those that a caller requests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from rocketflow_store.engine.clean_service import CleanResult
from rocketflow_store.engine.service_thread import ServiceThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.engine.clean_service import CleanService

FIRST_CLEAN_S: Final = 60.0


class CleanRounds:
    """Starts its thread at once; one round at a time, under `lock`."""

    def __init__(self, service: CleanService, interval_s: float, failed: Callable[[str, Exception], object]) -> None:
        self.service = service
        self.lock = threading.Lock()
        self._thread = ServiceThread("clean-resource", self._round, interval_s, first_s=FIRST_CLEAN_S, failed=failed)

    def _round(self) -> None:
        with self.lock:
            self.service.step(self._thread.pause)
            self.service.clean_batch_queues()

    def clean(self, check_open: Callable[[], None]) -> CleanResult:
        """Delete whatever the hour until nothing remains to delete; `check_open` raises once the store is closed."""
        result = CleanResult()
        with self.lock:
            while True:
                check_open()
                done = self.service.step(manual=True)
                result.add(done)
                result.queue_files += self.service.clean_batch_queues()
                if not done.log_files:
                    return result

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._thread.stop()
