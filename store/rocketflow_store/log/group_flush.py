"""Make the log durable: one sync for all waiters (SYNC_FLUSH), or periodically (ASYNC_FLUSH).

A failed sync fences the store: the success of a later sync would prove nothing.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from rocketflow_store.model.errors import FlushDiskTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.log.commit_log import CommitLog
    from rocketflow_store.log.fence import Fence

NO_TIMEOUT_S: Final = 24 * 3600.0
"""For callers that have no alternative if a sync is slow."""


class ThoroughSchedule:
    """Decides when a periodic flush includes everything, as RocketMQ's flush services do.

    Usually at least `least_pages` pages must wait for it; the first time, and whenever `interval_ms` passed since the
    last such time, any number is enough.
    """

    def __init__(self, least_pages: int, interval_ms: int) -> None:
        self._least_pages, self._interval_ms = least_pages, interval_ms
        self._last_ms = 0

    def least_pages(self, now_ms: int) -> int:
        """Return how many pages must wait for a flush at `now_ms`."""
        if now_ms < self._last_ms:  # the clock was set back
            self._last_ms = 0
        if now_ms < self._last_ms + self._interval_ms:
            return self._least_pages
        self._last_ms = now_ms
        return 0


class _Waiter:
    """A thread that waits until the log is durable up to `offset`, or until it is to run the next sync (`syncs`)."""

    __slots__ = ("offset", "syncs", "woken")

    def __init__(self, offset: int) -> None:
        self.offset, self.syncs = offset, False
        self.woken = threading.Lock()
        self.woken.acquire()


class GroupFlush:
    """Waiters register the offset they need; one of them syncs for all.

    After its sync the first waiter with a later offset runs the next one, and the others are woken.
    """

    def __init__(self, commit_log: CommitLog, fence: Fence, path: object) -> None:
        self._commit_log, self._fence, self._path = commit_log, fence, path
        self._lock = threading.Lock()
        self._syncing = False
        self._waiters: deque[_Waiter] = deque()
        self.synced: Callable[[], None] | None = None
        """Called after a sync by the thread that ran it, before its waiters are woken."""

    def flush_to(self, offset: int, timeout_s: float) -> bool:
        """Wait until the log is durable up to `offset`; return False after `timeout_s`."""
        waiter = None
        with self._lock:
            if self._commit_log.flushed_offset >= offset:
                return True
            self._fence.check()
            if self._syncing:
                waiter = _Waiter(offset)
                self._waiters.append(waiter)
            self._syncing = True
        if waiter is not None and not self._wait(waiter, timeout_s):
            return False
        if waiter is not None and not waiter.syncs:
            if self._commit_log.flushed_offset < offset:
                self._fence.check()
            return True
        try:
            self._fence.guard(self._commit_log.sync)
        finally:
            self._wake_synced()
        return True

    def make_durable(self, offset: int, timeout_s: float) -> None:
        """Wait as `flush_to`; raise FlushDiskTimeoutError after `timeout_s`."""
        if not self.flush_to(offset, timeout_s):
            raise FlushDiskTimeoutError(self._path, timeout_s)

    def _wait(self, waiter: _Waiter, timeout_s: float) -> bool:
        """Sleep until the waiter is woken; return False after the timeout."""
        try:
            in_time = waiter.woken.acquire(timeout=timeout_s)
        except BaseException:
            if not self._leave(waiter) and waiter.syncs:
                self._wake_synced()
            raise
        return in_time or not self._leave(waiter)

    def _leave(self, waiter: _Waiter) -> bool:
        """Stop waiting; return False if the waiter was just woken."""
        with self._lock, suppress(ValueError):
            self._waiters.remove(waiter)
            return True
        return False

    def _wake_synced(self) -> None:
        """Let the next sync begin, and wake the waiters of the one that ended (all of them if it failed)."""
        with self._lock:
            end = self._commit_log.flushed_offset
            waiters = list(self._waiters)
            self._waiters.clear()
            if self._fence.error is None:
                self._waiters.extend(one for one in waiters if one.offset > end)
                waiters = [one for one in waiters if one.offset <= end]
            self._syncing = bool(self._waiters)
            if self._waiters:
                following = self._waiters.popleft()
                following.syncs = True
                following.woken.release()
        try:
            if self.synced is not None and self._fence.error is None:
                self.synced()
        finally:
            for one in waiters:
                one.woken.release()

    def flush_early(self, begin: int) -> None:
        """Write out the bytes from `begin` on before they are published; no thread waits for it."""
        self._fence.guard(lambda: self._commit_log.sync_unpublished(begin))
