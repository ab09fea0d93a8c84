"""The event loop (uvloop where it is installed), services that run in it, and its clock."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, Protocol, TypeVar

from rocketflow.aio.steps import UncleanStopError

LOG: Final = logging.getLogger("rocketflow.aio")

T = TypeVar("T")

STOP_SECONDS: Final = 10.0
"""How long a service may take to stop."""

CUT_SECONDS: Final = 3.0
"""How long a stop that is cut short may take from then on: it closes the store."""

EXIT_CUT: Final = 1

_MMAP_THRESHOLD: Final = (-3, 32 << 20)
_TRIM_THRESHOLD: Final = (-1, 64 << 20)
"""Parameters of mallopt(3) and their values: smaller blocks come from the heap, which keeps so many free bytes."""

_COLLECT_AT: Final = (50_000, 50, 1_000)
"""Thresholds of the garbage collector while a service runs."""


class Service(Protocol):
    """A server that starts and stops."""

    async def start(self) -> None:
        """Start; raises if that fails."""

    async def stop(self) -> None:
        """Stop in order."""


def serve(service: Service, started: Callable[[], None]) -> None:
    """Run a service until SIGTERM, SIGINT or SIGHUP; `started` is called once it serves.

    SIGHUP that nohup ignores stays ignored. A signal that comes during the start counts at its end. A second signal, or
    a stop that takes longer than STOP_SECONDS, cuts the stop short. If it is not over soon after that, or left a step
    that may still run in a thread, the process ends at once with EXIT_CUT: Python would wait for the thread. Raises
    what `start` and `stop` raise.
    """
    run(_serve(service, started))


async def _serve(service: Service, started: Callable[[], None]) -> None:
    _allow_many_connections()
    _keep_freed_memory()
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[int] = asyncio.Queue()
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if one is not signal.SIGHUP or signal.getsignal(one) is not signal.SIG_IGN:  # nohup's stays
            loop.add_signal_handler(one, signals.put_nowait, one)
    starting: asyncio.Future[Any] = asyncio.ensure_future(service.start())
    first: asyncio.Future[Any] = asyncio.ensure_future(signals.get())
    await asyncio.wait({starting, first}, return_when=asyncio.FIRST_COMPLETED)
    again = asyncio.ensure_future(_next(signals, first))
    if not starting.done() and not await _is_over(starting, again):
        _leave("the start was not over when it had to stop")
    await starting
    _collect_rarely()
    started()
    await first
    stopping = asyncio.ensure_future(service.stop())
    if not await _is_over(stopping, again):
        why = "a second signal" if again.done() else f"it took longer than {STOP_SECONDS:g} s"
        LOG.warning("the stop is cut short: %s", why)
        stopping.cancel()
        await asyncio.wait({stopping}, timeout=CUT_SECONDS)
        if not stopping.done():
            _leave(f"the stop was not over {CUT_SECONDS:g} s after it was cut short")
    again.cancel()
    try:
        await stopping
    except asyncio.CancelledError:
        pass
    except UncleanStopError as error:
        if error.is_late:
            _leave(str(error))
        raise


async def _next(signals: asyncio.Queue[int], first: asyncio.Future[Any]) -> int:
    """Return the signal after the first."""
    await first
    return await signals.get()


async def _is_over(task: asyncio.Future[Any], again: asyncio.Future[Any]) -> bool:
    """Wait for a task at most STOP_SECONDS, and no longer than until a second signal; return whether it is over."""
    await asyncio.wait({task, again}, timeout=STOP_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    return task.done()


def _leave(why: str) -> NoReturn:
    """End the process although threads may run on."""
    print(f"error: {why}", file=sys.stderr)
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(EXIT_CUT)


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


def _collect_rarely() -> None:
    """Let the garbage collector never look at what the start made, and start after a run of messages, not within one.

    What requests make is freed by its reference counts; cycles are rare.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AT)


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
