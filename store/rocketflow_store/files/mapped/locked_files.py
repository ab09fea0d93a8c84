"""Log files whose pages are locked in RAM while they are written to, as by RocketMQ's warm-up with mlock.

A file is locked when it is created, and unlocked a few seconds after the log has moved on to the next.
"""

from __future__ import annotations

import mmap
import threading
import time
from typing import Final

from rocketflow_store.files import memory_lock, os_files
from rocketflow_store.model.errors import StoreError

_UNLOCK_AFTER_S: Final = 6.0
"""As in RocketMQ, which waits this long after a file is full before it unlocks it."""


class LockedFiles:
    """Maps of the locked files; a file that the system does not lock is used as any other."""

    def __init__(self, unlock_after_s: float = _UNLOCK_AFTER_S) -> None:
        self.unlock_after_s = unlock_after_s
        self._maps: dict[int, mmap.mmap] = {}  # by offset of the file
        self._due: dict[int, float] = {}
        self._lock = threading.Lock()
        self.refused = 0
        """Files that the system did not lock (RLIMIT_MEMLOCK)."""

    @property
    def offsets(self) -> list[int]:
        """Offsets of the locked files."""
        return sorted(self._maps)

    def lock(self, offset: int, fd: int, size: int) -> None:
        """Lock the pages of the file that begins at `offset`, and advise the system that they are needed soon."""
        try:
            mapped = os_files.map_file(fd, f"log file {offset}", size, write=False)
        except (StoreError, ValueError):  # too many maps
            self.refused += 1
            return
        if not memory_lock.lock(mapped):
            self.refused += 1
            mapped.close()
            return
        mapped.madvise(mmap.MADV_WILLNEED)
        with self._lock:
            self._maps[offset] = mapped

    def moved_on_to(self, offset: int) -> None:
        """Schedule the files before the one at `offset` to be unlocked: the log has begun that file."""
        due = time.monotonic() + self.unlock_after_s
        with self._lock:
            for one in self._maps:
                if one < offset:
                    self._due.setdefault(one, due)

    def due_in_s(self) -> float | None:
        """Return the seconds until `unlock_due` is to be called; None if no file waits for it."""
        with self._lock:
            return max(min(self._due.values()) - time.monotonic(), 0.0) if self._due else None

    def unlock_due(self) -> None:
        """Unlock the files whose time has passed."""
        now = time.monotonic()
        with self._lock:
            passed = [offset for offset, due in self._due.items() if due <= now]
        for offset in passed:
            self._unlock(offset)

    def _unlock(self, offset: int) -> None:
        with self._lock:
            self._due.pop(offset, None)
            mapped = self._maps.pop(offset, None)
        if mapped is not None:
            memory_lock.unlock(mapped)
            mapped.close()

    def close(self) -> None:
        """Unlock all files."""
        for offset in self.offsets:
            self._unlock(offset)
