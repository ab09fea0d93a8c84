"""A thread of the writing store that repeats one step at an interval."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import StoreError
from rocketflow_store.telemetry import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rocketflow_store.log.fence import Fence
    from rocketflow_store.views.dispatch.confirmed_dispatch import ConfirmedDispatch

_LOGGER: Final = logging.getLogger("rocketflow_store")


class ServiceThread:
    """Calls `step` every `interval_s`, or when it is woken, for the first time after `first_s`, until it is stopped.

    A step that raises (no space, no memory) is tried again at its next time; `error` is the last exception, and
    `failed(name, error)` is called when it is another one than before.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        interval_s: float,
        *,
        first_s: float | None = None,
        failed: Callable[[str, Exception], object] | None = None,
    ) -> None:
        self._name, self._step, self._interval_s, self._failed = name, step, interval_s, failed
        self._first_s = interval_s if first_s is None else first_s
        self._stop, self._woken = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        wait_s = self._first_s
        while True:
            self._woken.wait(wait_s)
            if self._stop.is_set():
                return
            self._woken.clear()
            wait_s = self._interval_s
            try:
                self._step()
                self.error = None
            except Exception as error:
                before, self.error = self.error, error
                if self._failed is not None and repr(before) != repr(error):
                    self._failed(self._name, error)

    def pause(self, seconds: float) -> bool:
        """Wait within a step, at most until the stop; return True if the thread is to stop."""
        return self._stop.wait(seconds)

    def wake(self) -> None:
        """Make the next step now; returns at once."""
        if not self._woken.is_set():
            self._woken.set()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stop.set()
        self._woken.set()
        self._thread.join()


def report_held(path: Path, fence: Fence, dispatch: ConfirmedDispatch) -> Callable[[str, Exception], None]:
    """Return a function that reports that a thread of a store cannot do its work.

    Fences and held dispatch have their own events. The log gets the place of an error that no disk explains.
    """

    def report(service: str, error: Exception) -> None:
        if not isinstance(error, (StoreError, OSError, MemoryError)):
            _LOGGER.error("the thread %s of %s failed", service, path, exc_info=error)
        if fence.error is None and dispatch.failure is None:
            events.report(events.SERVICE_HELD, path, service, str(error) or repr(error))

    return report
