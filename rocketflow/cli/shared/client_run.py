"""Run the work of a client command in an event loop that ends in order on Ctrl-C and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from rocketflow.process.stop_signals import STOPPING, StoppedError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result.

    Signals cancel it: a handler that raises would be caught by the event loop. Raises StoppedError once it has ended.
    """
    from rocketflow.aio.loop import run

    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread
        return run(work)
    before = {one: signal.getsignal(one) for one in STOPPING}
    try:
        return run(_cancelled_by_signals(work))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _cancelled_by_signals(work: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        task.cancel()

    for one in STOPPING:
        if signal.getsignal(one) is not signal.SIG_IGN:  # nohup's stays
            loop.add_signal_handler(one, stop, one)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise StoppedError(received[0]) from None
        raise
