"""The event loop (uvloop where it is installed), services that run in it, and its clock."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import resource
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

LOG: Final = logging.getLogger("rocketflow.aio")

T = TypeVar("T")

STOP_SECONDS: Final = 10.0
"""How long a service may take to stop."""

_MMAP_THRESHOLD: Final = (-3, 32 << 20)
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""Parameters of mallopt(3) and their values: smaller blocks come from the heap, which keeps so many free bytes."""


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
    _keep_freed_memory()
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


def _keep_freed_memory() -> None:
    """Let glibc keep memory for the next large frame: to return it and ask for new pages costs more than the frame."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        for number, value in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            mallopt(number, value)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in an event loop of its own."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def monotonic_ms() -> int:
    """Return the time of the clock that is never set, in milliseconds."""
    return int(time.monotonic() * 1000)
