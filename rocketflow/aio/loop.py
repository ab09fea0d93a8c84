"""The event loop (uvloop where it is installed), and a watch on its lag."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

LOG: Final = logging.getLogger("rocketflow.aio")

T = TypeVar("T")

WATCH_SECONDS: Final = 0.05
STOP_SECONDS: Final = 10.0
"""How long a service may take to stop."""


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


class LagWatch:
    """Measures how late the loop runs a timer, in seconds."""

    def __init__(self) -> None:
        self._worst = 0.0
        self._last = 0.0

    @property
    def last_s(self) -> float:
        """Return the last measured lag."""
        return self._last

    def take_worst_s(self) -> float:
        """Return the worst lag since the last call."""
        worst, self._worst = self._worst, 0.0
        return worst

    async def watch(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + WATCH_SECONDS
            await asyncio.sleep(WATCH_SECONDS)
            self._last = max(0.0, loop.time() - due)
            self._worst = max(self._worst, self._last)
