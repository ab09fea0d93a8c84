"""The lock of whoever appends to the log, and the queue of the puts that came meanwhile.

Threads that put at once would each wake for its turn at the lock, and again once its record is synced; most of what a
put costs then is threads taking turns. So who finds the lock taken leaves its put in a queue and sleeps. Whoever lets
go of the lock wakes the first of them: it takes all that wait there, appends them together, waits for one sync,
dispatches, and only then wakes the others. Every put sleeps once, whatever their number.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rocketflow_store.append.requests import PutRequest
    from rocketflow_store.model.results import PutMessageResult

_MOST: Final = 1024
"""So many puts are taken along at once."""


class WaitingPut:
    """A put in the queue."""

    __slots__ = ("_woken", "appended_s", "done", "outcomes", "requests", "taken")

    def __init__(self, requests: Sequence[PutRequest]) -> None:
        self.requests = requests
        self.outcomes: list[PutMessageResult | Exception] = []
        """What came of it, once it was appended: at `appended_s` (monotonic)."""
        self.appended_s = 0.0
        self.taken = False
        """Whether another thread appends and acknowledges it; told under the lock."""
        self.done = False
        """Whether that thread did."""
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self) -> None:
        """Let its thread go on, once in its life: it is to lead, or all is done."""
        self._woken.release()

    def sleep(self, timeout_s: float = -1) -> bool:
        """Wait to be woken; False where that took longer than `timeout_s`."""
        return self._woken.acquire(timeout=timeout_s)


class PutLock:
    """A lock; puts, which others may take along, get it with `acquire_now` or `queue_up`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: deque[WaitingPut] = deque()

    @property
    def waiting(self) -> int:
        """How many puts are in the queue."""
        return len(self._queue)

    def acquire_now(self) -> bool:
        """Take the lock if nobody has it."""
        return self._lock.acquire(False)

    def release(self) -> None:
        """Let go; the first in the queue is to take the lock next."""
        self._lock.release()
        if self._queue:
            self._wake_first()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _wake_first(self) -> None:
        with suppress(IndexError):  # another thread was quicker
            self._queue.popleft().wake()

    def queue_up(self, put: WaitingPut, timeout_s: float = -1) -> list[WaitingPut]:
        """Wait for the lock; then `put` and all that wait behind it, which are this thread's to do.

        Nothing, and without the lock, where another thread took `put` along; where it has been at it for `timeout_s`
        it may still be. Nobody is left asleep: a put is in the queue before the lock is let go, or gets it itself.
        """
        self._queue.append(put)
        if not self._lock.acquire(False):
            try:
                while not put.sleep(timeout_s) and not put.taken:
                    pass
            except BaseException:  # interrupted: another one is to lead in its place
                with suppress(ValueError):
                    self._queue.remove(put)
                self._wake_first()
                raise
            if put.taken:
                return []
            self._lock.acquire()
        elif put.taken:
            self.release()
            return []
        with suppress(ValueError):  # who was woken to lead is in the queue no more
            self._queue.remove(put)
        taken = [put]
        with suppress(IndexError):
            while len(taken) < _MOST:
                taken.append(self._queue.popleft())
                taken[-1].taken = True
        return taken
