"""The put lock, held by the thread that appends to the log, and the queue of the puts that wait for it.

If every concurrent put woke for its turn at the lock and again after its sync, most of its cost would be context
switches. A thread that finds the lock taken therefore queues its put and sleeps. The release of the lock wakes the
first queued thread, the leader: it takes all queued puts, appends them as one run, waits for one sync, dispatches, and
then wakes the other threads. Every put sleeps once, however many wait.
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

_MAX_TAKEN: Final = 1024
"""Maximum number of queued puts that a leader takes at once."""


class WaitingPut:
    """A put in the queue."""

    __slots__ = ("_woken", "appended_s", "done", "outcomes", "requests", "taken")

    def __init__(self, requests: Sequence[PutRequest]) -> None:
        self.requests = requests
        self.outcomes: list[PutMessageResult | Exception] = []
        """Outcomes of the requests, set when they are appended, at `appended_s` (monotonic)."""
        self.appended_s = 0.0
        self.taken = False
        """True if another thread appends and acknowledges it; set under the lock."""
        self.done = False
        """True once that thread has acknowledged it."""
        self._woken = threading.Lock()
        self._woken.acquire()

    def wake(self) -> None:
        """Wake its thread, once: either to lead, or because the put is done."""
        self._woken.release()

    def sleep(self, timeout_s: float = -1) -> bool:
        """Wait for `wake`; return False if that takes longer than `timeout_s` (-1: no limit)."""
        return self._woken.acquire(timeout=timeout_s)


class PutLock:
    """A lock that puts acquire with `acquire_now` or `queue_up`; a leader takes queued puts along."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_held = self._lock.locked
        """Return True if a thread holds the lock."""
        self._queue: deque[WaitingPut] = deque()

    @property
    def waiting(self) -> int:
        """Number of queued puts."""
        return len(self._queue)

    def acquire_now(self) -> bool:
        """Acquire the lock if it is free; return False if not."""
        return self._lock.acquire(False)

    def release(self) -> None:
        """Release the lock, and wake the first queued put to lead."""
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
        with suppress(IndexError):  # another thread emptied the queue first
            self._queue.popleft().wake()

    def queue_up(self, put: WaitingPut, timeout_s: float = -1) -> list[WaitingPut]:
        """Wait for the lock; return `put` and the puts queued after it, which the caller has to append.

        Return an empty list, without the lock, if another thread took `put`; that thread may still be appending it
        after `timeout_s`. No put sleeps forever: it is queued before the lock is released, or acquires the lock itself.
        """
        self._queue.append(put)
        if not self._lock.acquire(False):
            try:
                while not put.sleep(timeout_s) and not put.taken:
                    pass
            except BaseException:  # interrupted: another thread has to lead
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
        with suppress(ValueError):  # a put that was woken to lead has left the queue
            self._queue.remove(put)
        taken = [put]
        with suppress(IndexError):
            while len(taken) < _MAX_TAKEN:
                taken.append(self._queue.popleft())
                taken[-1].taken = True
        return taken
