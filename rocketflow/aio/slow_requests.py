"""A log of the requests whose answers took long."""

from __future__ import annotations

import logging
import time
from typing import Final

from rocketflow.remoting.codes import code_name

LOG: Final = logging.getLogger("rocketflow.aio")

SLOW_SECONDS: Final = 1.0
"""From this time on, between the arrival of a request and its answer, a request is slow."""

_REPORT_SECONDS: Final = 10.0


class SlowRequests:
    """Logs slow requests, in one line for those of `report_s` seconds. Pulls that wait for messages are not slow."""

    def __init__(self, *, report_s: float = _REPORT_SECONDS) -> None:
        self._report_s = report_s
        self._reported = -report_s
        self._count = 0
        self._slowest = (0.0, 0, "")

    def note(self, code: int, address: str, seconds: float, count: int = 1) -> None:
        """Take note of slow requests of the client at `address`, answered at the same time."""
        self._count += count
        self._slowest = max(self._slowest, (seconds, code, address))
        now = time.monotonic()
        if now - self._reported < self._report_s:
            return
        seconds, code, address = self._slowest
        LOG.warning(
            "slow requests: %d, the slowest is %s from %s, answered after %.1f s",
            *(self._count, code_name(code), address, seconds),
        )
        self._reported, self._count, self._slowest = now, 0, (0.0, 0, "")
