"""An event loop with simulated time and simulated processes.

Time stands still while a callback runs, and goes to the next timer when nothing else is to be done: minutes take
milliseconds. `time.time`, `time.monotonic` and `time.sleep` follow it. A *node* is a simulated process: what it
schedules is no longer run once it is killed, and waits while it is suspended, as by SIGSTOP. Functions for threads run
in the loop's thread, a moment later: a run depends on nothing but its seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, Final

EPOCH_S: Final = 1_790_000_000.0
"""The simulated time of day at the start, in seconds since 1970."""

_THREAD_S: Final = 0.002
"""The longest time that a function takes to begin in an executor's thread."""

TICK_S: Final = 1e-6
"""Between two callbacks that have an order: the event loop may mix up what is due at the same time."""

_Handle = Any


class Stuck(AssertionError):
    """The loop has nothing to run any more: what waits would wait for ever."""


class Node:
    """A simulated process: a name, and whether what it scheduled is run."""

    def __init__(self, name: str, loop: SimulatedLoop) -> None:
        self.name = name
        self._loop = loop
        self._is_dead = False
        self._is_suspended = False
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []
        self.context = contextvars.copy_context()
        self.context.run(_NODE.set, self)

    @property
    def is_suspended(self) -> bool:
        """Return whether the node waits."""
        return self._is_suspended

    def spawn(self, main: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this node."""
        return self._loop.create_task(main, context=self.context.copy())

    def kill(self) -> None:
        """Run nothing of this node any more."""
        self._is_dead = True
        self._held.clear()

    def revive(self) -> None:
        """Run again what is scheduled from now on."""
        self._is_dead = self._is_suspended = False

    def suspend(self) -> None:
        """Let everything of this node wait."""
        self._is_suspended = True

    def resume(self) -> None:
        """Run what waited meanwhile, in its order."""
        self._is_suspended = False
        held, self._held = self._held, []
        for callback, arguments, context in held:
            self._loop.call_soon(callback, *arguments, context=context)

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback, or hold it, or drop it."""
        if self._is_suspended:
            self._held.append((callback, arguments, contextvars.copy_context()))
        elif not self._is_dead:
            callback(*arguments)


_NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("node", default=None)


def current_node() -> Node | None:
    """Return the node whose callback runs."""
    return _NODE.get()


class _Selector(selectors.SelectSelector):
    """A selector that lets simulated time pass instead of waiting."""

    def __init__(self, pass_time: Callable[[float], None]) -> None:
        super().__init__()
        self._pass_time = pass_time

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise Stuck("nothing is scheduled any more, and the main coroutine waits")
            self._pass_time(timeout)
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The event loop; `seed` decides how long threads take to begin."""

    def __init__(self, seed: int) -> None:
        self._now = 1_000.0
        self._random = random.Random(f"{seed} threads")
        self._free_at: dict[Executor, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.get_ident()
        super().__init__(_Selector(self.pass_time))

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self._now += max(0.0, seconds)

    def time(self) -> float:
        """Return the simulated time, in seconds."""
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        """Schedule a callback of the node in whose context it runs."""
        node = _node_of(context)
        if node is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(node.run, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        """Schedule a callback at a time."""
        node = _node_of(context)
        if node is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, node.run, callback, *args, context=context)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> _Handle:
        """Schedule a callback; the functions of executors run in the loop's thread."""
        assert threading.get_ident() == self._thread, "a simulated process has started a thread"
        return self.call_soon(callback, *args, context=context)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """Start a task, and hold it: nothing else may hold the tasks of a killed node."""
        task = super().create_task(coro, **options)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run a function a moment later; those of one executor one after the other."""
        begins = self._now + self._random.uniform(0, _THREAD_S)
        if executor is not None:
            begins = self._free_at[executor] = max(begins, self._free_at.get(executor, 0.0) + TICK_S)
        result: asyncio.Future[Any] = self.create_future()
        self.call_at(begins, _run, result, func, args)
        return result


def _node_of(context: contextvars.Context | None) -> Node | None:
    return _NODE.get() if context is None else context.get(_NODE)


def _run(result: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if result.cancelled():
        return
    try:
        found = function(*arguments)
    except Exception as error:
        result.set_exception(error)
    else:
        result.set_result(found)


@contextmanager
def simulated_time(loop: SimulatedLoop) -> Iterator[None]:
    """Let the clocks of the process follow the loop's time within the block."""
    real = {name: getattr(time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "sleep")}
    started = loop.time()

    def time_of_day() -> float:
        return EPOCH_S + loop.time() - started

    def sleep(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            loop.pass_time(seconds)
        else:
            real["sleep"](seconds)

    time.time, time.time_ns = time_of_day, lambda: int(time_of_day() * 1e9)
    time.monotonic, time.monotonic_ns = loop.time, lambda: int(loop.time() * 1e9)
    time.sleep = sleep
    try:
        yield
    finally:
        for name, function in real.items():
            setattr(time, name, function)


class SimulatedServiceThread:
    """Stands for the store's `ServiceThread`: the node that makes it runs its steps in the loop."""

    def __init__(
        self,
        name: str,
        step: Callable[[], object],
        interval_s: float,
        *,
        first_s: float | None = None,
        failed: Callable[[str, Exception], object] | None = None,
    ) -> None:
        self._name, self._step, self._interval_s, self._failed = name, step, interval_s, failed
        self._loop = asyncio.get_running_loop()
        self._is_woken = False
        self._next = self._loop.call_later(interval_s if first_s is None else first_s, self._run)
        self.error: Exception | None = None

    def _run(self) -> None:
        self._is_woken = False
        self._next = self._loop.call_later(self._interval_s, self._run)
        try:
            self._step()
            self.error = None
        except Exception as error:
            before, self.error = self.error, error
            if self._failed is not None and repr(before) != repr(error):
                self._failed(self._name, error)

    def pause(self, seconds: float) -> bool:
        """Let the next step wait for so long."""
        self._next.cancel()
        self._next = self._loop.call_later(seconds, self._run)
        return False

    def wake(self) -> None:
        """Make the next step soon."""
        if not self._is_woken:
            self._is_woken = True
            self._next.cancel()
            self._next = self._loop.call_soon(self._run)

    def stop(self) -> None:
        """Make no step any more."""
        self._next.cancel()
