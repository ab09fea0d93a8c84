"""The event loop (uvloop where it is installed), its clock, and a watch on its lag."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from rocketflow.aio.histogram import Histogram

LOG: Final = logging.getLogger("rocketflow.aio")

T = TypeVar("T")

STOP_SECONDS: Final = 10.0
"""How long a service may take to stop."""

LAG_BOUNDS_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
LONG_LAG_SECONDS: Final = 0.1

_LAG_WATCH_SECONDS: Final = 0.05
_LAG_REPORT_SECONDS: Final = 60.0


class Service(Protocol):
    """A server that starts and stops."""

    async def start(self) -> None:
        """Start; raises if that fails."""

    async def stop(self) -> None:
        """Stop in order."""


def serve(service: Service, started: Callable[[], None]) -> None:
    """Run a service until SIGTERM, SIGINT or SIGHUP; `started` is called once it serves.

    A second signal, or a stop that takes longer than STOP_SECONDS, ends it at once. Raises what `stop` raises.
    """
    run(_serve(service, started))


async def _serve(service: Service, started: Callable[[], None]) -> None:
    _allow_many_connections()
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[int] = asyncio.Queue()
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(one, signals.put_nowait, one)
    await service.start()
    started()
    await signals.get()
    stopping = asyncio.ensure_future(service.stop())
    again = asyncio.ensure_future(signals.get())
    await asyncio.wait({stopping, again}, timeout=STOP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not stopping.done():
        LOG.warning("the stop is cut short: a second signal, or it took longer than %g s", STOP_SECONDS)
        stopping.cancel()
    await asyncio.gather(again, return_exceptions=True)
    with contextlib.suppress(asyncio.CancelledError):
        await stopping


def _allow_many_connections() -> None:
    """Raise the limit on open files as far as it may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def monotonic_ms() -> int:
    """Return the time of the clock that is never set, in milliseconds."""
    return int(time.monotonic() * 1000)


class LoopLag:
    """The lag of the loop: how late it runs what is due, measured 20 times a second."""

    def __init__(self) -> None:
        self.histogram = Histogram(LAG_BOUNDS_S)

    async def watch(self) -> None:
        """Measure until cancelled; the longest lag of a minute is logged if it is LONG_LAG_SECONDS or more."""
        loop = asyncio.get_running_loop()
        longest, report_at = 0.0, loop.time() + _LAG_REPORT_SECONDS
        while True:
            due = loop.time() + _LAG_WATCH_SECONDS
            await asyncio.sleep(_LAG_WATCH_SECONDS)
            now = loop.time()
            lag = max(0.0, now - due)
            self.histogram.observe(lag)
            longest = max(longest, lag)
            if now >= report_at:
                if longest >= LONG_LAG_SECONDS:
                    LOG.warning("the event loop was late by up to %.0f ms within the last minute", longest * 1000)
                longest, report_at = 0.0, now + _LAG_REPORT_SECONDS
