"""Asyncio clients for callers without an event loop: one background thread of a process runs all of them.

A client with plain methods derives from `SyncClient`, makes its asyncio client and waits for its coroutines:

    class Producer(SyncClient[produce.Producer]):
        def __init__(self, options: ProducerOptions) -> None:
            super().__init__(lambda: produce.Producer(options))

        def send(self, message: Message) -> SendResult:
            return self._wait(self._client.send(message))

`SyncClient` has `start`, `close` and the `with` block. A function that users give to such a client, a listener for
example, must not run in the loop: `in_thread` makes a coroutine function of it, which runs it in a thread of a pool.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Protocol, Self, TypeVar

from rocketflow.aio.loop import new_loop
from rocketflow.client.errors import ClientStateError

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient(Protocol):
    """A client that starts and closes in an event loop."""

    async def start(self) -> None:
        """Start."""

    async def close(self) -> None:
        """Close."""


C = TypeVar("C", bound=AsyncClient)


class BackgroundLoop:
    """An event loop in a thread of its own, started by the first call; a forked process gets another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and return its result; an interrupted caller cancels it.

        Raises what it raises, and ClientStateError for a call from the loop itself, which would wait for ever.
        """
        if threading.current_thread() is self._thread and self._process == os.getpid():
            work.close()
            raise ClientStateError("a synchronous client was called in the event loop of clients; call it in a thread")
        future = self.submit(work)
        try:
            return future.result()
        finally:
            future.cancel()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the loop and return the future of its result, for any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._started())

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                self._loop = loop = new_loop()
                self._process = os.getpid()
                self._thread = threading.Thread(target=loop.run_forever, name="rocketflow-clients", daemon=True)
                self._thread.start()
            return self._loop


LOOP: Final = BackgroundLoop()
"""The loop of this process's synchronous clients."""


class SyncClient(Generic[C]):
    """A client with plain methods, for any number of threads; a `with` block starts and closes it."""

    def __init__(self, make: Callable[[], C]) -> None:
        """Make the asyncio client in the loop."""

        async def made() -> C:
            return make()

        self._client = self._wait(made())

    def start(self) -> None:
        """Start the client."""
        self._wait(self._client.start())

    def close(self) -> None:
        """Close the client."""
        self._wait(self._client.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @staticmethod
    def _wait(work: Coroutine[Any, Any, T]) -> T:
        return LOOP.wait(work)


def in_thread(function: Callable[P, T], pool: ThreadPoolExecutor | None = None) -> Callable[P, Awaitable[T]]:
    """Return a coroutine function that runs `function` in a thread, of the loop's pool where none is given."""

    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(pool, lambda: function(*args, **kwargs))

    return run
