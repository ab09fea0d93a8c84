"""Making the log durable: one sync for everyone who waits (SYNC_FLUSH), or every so often (ASYNC_FLUSH).

A failed sync fences: nothing is acknowledged any more, and no later sync is believed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rocketflow_store.errors import StoreError, StoreFencedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketflow_store.commit_log import CommitLog


class GroupFlush:
    """Waiters hand in the offset they need; one of them syncs for all."""

    def __init__(self, commit_log: CommitLog, path: object) -> None:
        self._commit_log, self._path = commit_log, path
        self._changed = threading.Condition()
        self._syncing = False
        self.fence: StoreFencedError | None = None

    def check(self) -> None:
        """Raise where an earlier sync failed."""
        if self.fence is not None:
            raise StoreFencedError(self._path, self.fence.why)

    def flush_to(self, offset: int, timeout_s: float) -> bool:
        """Wait until the log is durable up to `offset`; False where that took longer than `timeout_s`."""
        commit_log = self._commit_log
        with self._changed:
            while commit_log.flushed_offset < offset:
                self.check()
                if not self._syncing:
                    self._syncing = True
                    break
                if not self._changed.wait(timeout_s):
                    return False
            else:
                return True
        try:
            self._fencing(commit_log.sync)
        finally:
            with self._changed:
                self._syncing = False
                self._changed.notify_all()
        return True

    def flush_early(self, begin: int) -> None:
        """Let the disk work on what was written from `begin` on before it is published; nobody waits for it."""
        self._fencing(lambda: self._commit_log.sync_unpublished(begin))

    def _fencing(self, sync: Callable[[], object]) -> None:
        try:
            sync()
        except StoreFencedError as error:
            self.fence = error
            raise
        except StoreError as error:
            self.fence = StoreFencedError(self._path, str(error))
            raise self.fence from error


class PeriodicFlush:
    """A thread that calls `step` every `interval_s` until it is stopped."""

    def __init__(self, step: Callable[[], None], interval_s: float) -> None:
        self._step, self._interval_s = step, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flush-real-time", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            try:
                self._step()
            except StoreError:
                return  # fenced: the next put says so

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stop.set()
        self._thread.join()
