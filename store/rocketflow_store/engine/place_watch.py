"""A writing store looks whether its directories, `lock` and the end of its log are still in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rocketflow_store.engine.service_thread import ServiceThread
from rocketflow_store.model.errors import StoreLockedError, StoreMovedError

if TYPE_CHECKING:
    from rocketflow_store.engine.opening import StoreParts
    from rocketflow_store.metadata.layout.store_paths import StoreLock

_MOST_S: Final = 0.5


class PlaceWatch:
    """Starts its thread at once. Files that moved fence the store, and nothing is written at their old paths."""

    def __init__(self, lock: StoreLock, parts: StoreParts) -> None:
        self._lock, self._files, self._fence = lock, parts.files, parts.writer.fence
        self._root = parts.paths.root
        self._fence.on_moved = self._lose
        self._is_lost = False
        interval_s = min(parts.config.flush_interval_commit_log / 1000, _MOST_S)
        self._thread = ServiceThread("watch-places", self.look, interval_s)

    def look(self) -> None:
        """Fence the store if a file or a directory is no longer in its place; lock the directories that are new."""
        if self._is_lost:
            return
        why = self._what_moved()
        if why:
            self._lose(why)
            self._fence.close(StoreMovedError(self._root, why))

    def _lose(self, why: str) -> str:
        """Write nothing at the old paths any more; return the reason to report, which names the uppermost directory."""
        if not self._is_lost:
            why = self._moved_directory() or why
            self._is_lost = True
            self._lock.lose(why)
        return why

    def _moved_directory(self) -> str:
        moved = self._lock.moved()
        return "" if moved is None else f"{moved} was renamed, replaced or deleted: put it back"

    def _what_moved(self) -> str:
        if why := self._moved_directory():
            return why
        last = self._files.last
        if last is not None and last.is_replaced() and self._files.last is last:  # else a failed put took it back
            return last.why_replaced
        try:
            self._lock.hold_open()
        except StoreLockedError as error:
            return str(error)
        return ""

    def stop(self) -> None:
        """End the thread and look once more: what follows would write at a path that another store may have."""
        self._thread.stop()
        self.look()
