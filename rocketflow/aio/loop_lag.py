"""A watch on the lag of an event loop, which names what blocked it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from types import FrameType
from typing import Final

from rocketflow.aio.histogram import Histogram

LOG: Final = logging.getLogger("rocketflow.aio")

LAG_BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_LAG_SECONDS: Final = 0.1

_WATCH_SECONDS: Final = 0.05
_REPORT_SECONDS: Final = 60.0


class LoopLag:
    """The lag of the loop: how late it runs what is due, measured 20 times a second.

    A thread looks at a loop that is late by LONG_LAG_SECONDS or more, and notes which function of RocketFlow it runs.
    """

    def __init__(self, *, report_s: float = _REPORT_SECONDS) -> None:
        self.histogram = Histogram(LAG_BOUNDS_S)
        self._report_s = report_s
        self._ran = 0.0
        self._running = ""

    async def watch(self) -> None:
        """Measure until cancelled; the longest lag of a minute is logged if it is LONG_LAG_SECONDS or more."""
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        self._ran = time.monotonic()
        threading.Thread(
            target=self._look, args=(threading.get_ident(), stop), name="rocketflow-loop-lag", daemon=True
        ).start()
        try:
            longest, where, report_at = 0.0, "", loop.time() + self._report_s
            while True:
                due = loop.time() + _WATCH_SECONDS
                await asyncio.sleep(_WATCH_SECONDS)
                now = loop.time()
                lag = max(0.0, now - due)
                self.histogram.observe(lag)
                if lag > longest:
                    longest, where = lag, self._running
                self._ran, self._running = time.monotonic(), ""
                if now >= report_at:
                    if longest >= LONG_LAG_SECONDS:
                        LOG.warning(
                            "the event loop was late by up to %.0f ms within the last minute%s",
                            longest * 1000,
                            f": it ran {where}" if where else "",
                        )
                    longest, where, report_at = 0.0, "", now + self._report_s
        finally:
            stop.set()

    def _look(self, thread: int, stop: threading.Event) -> None:
        """Note what the loop's thread runs when it is late, until `stop` is set."""
        while not stop.wait(_WATCH_SECONDS):
            if time.monotonic() - self._ran >= _WATCH_SECONDS + LONG_LAG_SECONDS:
                self._running = _function(sys._current_frames().get(thread))


def _function(frame: FrameType | None) -> str:
    """Return the innermost function of RocketFlow that a thread runs, or "" if it runs none but the loop's own."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("rocketflow"):
            at_rest = module == "rocketflow.aio.loop"
            return "" if at_rest else f"{module}.{frame.f_code.co_qualname} (line {frame.f_lineno})"
        frame = frame.f_back
    return ""
