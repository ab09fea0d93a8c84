"""Named steps of a server's start; its stop takes them back in the reverse order, each with a share of the time.

RocketMQ's source: broker/BrokerController.java (start, shutdown), which has the order and no names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from rocketflow.errors import RocketFlowError

LOG: Final = logging.getLogger("rocketflow.aio")

STEPS_SECONDS: Final = 9.5
"""How long all steps of a stop may take together: less than a stop may, so that the last ones are named too."""

LEAST_SECONDS: Final = 0.2
"""What a step has when earlier ones have used the time up."""

Action = Callable[[], Awaitable[None] | None]


class Step(NamedTuple):
    """One step: `start` does it, `stop` takes it back within `seconds`.

    `stop` also follows a `start` that has failed half-way. A stop that is cut short skips it unless it is `vital`.
    """

    name: str
    start: Action | None = None
    stop: Action | None = None
    seconds: float = 0.5
    vital: bool = False


class UncleanStopError(RocketFlowError):
    """Steps of a stop failed or were late; `is_late` is set if one of them may still run in a thread."""

    def __init__(self, troubles: Iterable[str], *, is_late: bool) -> None:
        super().__init__(f"the stop was not clean: {'; '.join(troubles)}")
        self.is_late = is_late


class Steps:
    """The steps that a server has begun."""

    def __init__(self, total_s: float = STEPS_SECONDS) -> None:
        self._total_s = total_s
        self._begun: list[Step] = []
        self._is_cut = False

    async def start(self, steps: Iterable[Step]) -> None:
        """Do steps in order, after those of earlier calls; a failure takes all of them back.

        Raises what a step raises.
        """
        loop = asyncio.get_running_loop()
        for step in steps:
            self._begun.append(step)
            began = loop.time()
            try:
                await _done(step.start)
            except BaseException as error:
                LOG.info("start: %s: failed (%s): what was started is stopped", step.name, _text(error))
                try:
                    await self.stop()
                except UncleanStopError as unclean:
                    LOG.warning("%s", unclean)
                raise
            LOG.info("start: %s: done in %.3f s", step.name, loop.time() - began)

    async def stop(self) -> None:
        """Take back what was begun, in the reverse order; a step that fails or is late does not keep the next ones.

        A cancellation cuts the stop short: only vital steps are taken back then.

        Raises UncleanStopError with the names of the steps that failed or were late, CancelledError after a cut.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + self._total_s
        troubles = []
        is_late = False
        while self._begun:
            step = self._begun.pop()
            if step.stop is None:
                continue
            if self._is_cut and not step.vital:
                LOG.warning("stop: %s: skipped", step.name)
                continue
            began = loop.time()
            task = asyncio.ensure_future(_done(step.stop))
            await self._wait(step, task, min(end, began + step.seconds))
            if not task.done():
                why = "cut short" if self._is_cut else f"not over after {loop.time() - began:.1f} s"
                is_late = True
                task.cancel()
                task.add_done_callback(_retrieve)
            else:
                why = _failure(task)
            if why:
                LOG.warning("stop: %s: %s", step.name, why)
                troubles.append(f"{step.name}: {why}")
            else:
                LOG.info("stop: %s: done in %.3f s", step.name, loop.time() - began)
        if troubles:
            raise UncleanStopError(troubles, is_late=is_late)
        if self._is_cut:
            raise asyncio.CancelledError

    async def _wait(self, step: Step, task: asyncio.Task[None], end: float) -> None:
        """Wait for a step until the loop's time `end`; after a cut for a vital step only."""
        loop = asyncio.get_running_loop()
        end = max(end, loop.time() + LEAST_SECONDS)
        while not task.done() and loop.time() < end and not (self._is_cut and not step.vital):
            try:
                await asyncio.wait({task}, timeout=end - loop.time())
            except asyncio.CancelledError:
                self._is_cut = True


async def _done(action: Action | None) -> None:
    later = None if action is None else action()
    if later is not None:
        await later


def _failure(task: asyncio.Task[None]) -> str:
    """Return why a task failed, "" if it did not."""
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    return "" if error is None else f"failed ({_text(error)})"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _retrieve(task: asyncio.Task[None]) -> None:
    """Read the failure of a step that was named already: asyncio would log it once more."""
    if not task.cancelled():
        task.exception()
