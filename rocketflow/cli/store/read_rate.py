"""A limit on how fast a check reads a store, so that a broker beside it keeps the disk."""

from __future__ import annotations

import time
from collections.abc import Callable


class ReadRate:
    """Passes progress on, and sleeps until as much time has passed as the bytes may take.

    Each of the threads that report progress sleeps by itself: together they keep the rate.
    """

    def __init__(
        self,
        bytes_per_second: int,
        report: Callable[[int, int], None] | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._bytes_per_second, self._report = bytes_per_second, report
        self._clock, self._sleep = clock, sleep
        self._began = clock()

    def __call__(self, done: int, total: int) -> None:
        """Take note that `done` of `total` bytes were read since the begin."""
        if self._report is not None:
            self._report(done, total)
        ahead_s = done / self._bytes_per_second - (self._clock() - self._began)
        if ahead_s > 0:
            self._sleep(ahead_s)
