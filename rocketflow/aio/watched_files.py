"""Files that are read again when they change.

RocketMQ's source: srvutil/FileWatchService.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

WATCH_SECONDS: Final = 1.0
"""How often the files are looked at; RocketMQ looks every 500 ms."""


class WatchedFiles:
    """The files that `paths` returns, as of the last look, without those that do not exist."""

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        """Look at the files. Blocks."""
        self._paths = paths
        self._seen = self._look()

    @property
    def existing(self) -> list[Path]:
        """The files that existed at the last look."""
        return list(self._seen)

    def changed(self) -> bool:
        """Look at the files, and return whether one has changed, come or disappeared since the last look. Blocks."""
        before, self._seen = self._seen, self._look()
        return self._seen != before

    def _look(self) -> dict[Path, tuple[int, int, int]]:
        found = {}
        for path in self._paths():
            try:
                status = path.stat()
            except OSError:
                continue
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found


async def call_often(reload: Callable[[], None]) -> None:
    """Call a function that blocks every WATCH_SECONDS, in a thread, until cancelled."""
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        await asyncio.to_thread(reload)
