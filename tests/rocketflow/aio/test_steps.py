"""Named steps of a start, and the stop that takes them back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from rocketflow.aio.steps import Step, Steps, UncleanStopError


class Trace:
    """Makes steps that note what they do."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def step(self, name: str, **changes: object) -> Step:
        """Return a step that notes its start and stop, with `changes`."""
        step = Step(name, self._note(f"+{name}"), self._note(f"-{name}"))
        return step._replace(**changes)

    def _note(self, text: str) -> Callable[[], None]:
        return lambda: self.seen.append(text)


async def never() -> None:
    await asyncio.Event().wait()


def fail() -> None:
    raise OSError("no room")


def test_a_stop_takes_the_steps_back_from_the_last_to_the_first(caplog: pytest.LogCaptureFixture) -> None:
    trace, steps = Trace(), Steps()

    async def trial() -> None:
        await steps.start([trace.step("a"), trace.step("b", start=None)])
        await steps.start([trace.step("c", stop=None), trace.step("d")])
        await steps.stop()
        await steps.stop()

    with caplog.at_level(logging.INFO, "rocketflow.aio"):
        asyncio.run(trial())
    assert trace.seen == ["+a", "+c", "+d", "-d", "-b", "-a"]
    named = [one.rsplit(":", 1)[0] for one in caplog.messages]
    assert named == ["start: a", "start: b", "start: c", "start: d", "stop: d", "stop: b", "stop: a"]


def test_a_failed_start_takes_back_what_was_begun_and_begins_nothing_more() -> None:
    trace = Trace()

    async def trial() -> None:
        with pytest.raises(OSError, match="no room"):
            await Steps().start([trace.step("a"), trace.step("b", start=fail), trace.step("c")])

    asyncio.run(trial())
    assert trace.seen == ["+a", "-b", "-a"]


def test_a_failed_start_raises_its_own_error_although_the_stop_fails_too(caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace()

    async def trial() -> None:
        with pytest.raises(KeyError):
            await Steps().start([trace.step("a", stop=fail), trace.step("b", start=lambda: {}["x"])])

    asyncio.run(trial())
    assert "stop: a: failed (OSError: no room)" in caplog.text


def test_a_step_that_fails_or_is_late_is_named_and_the_next_ones_run(caplog: pytest.LogCaptureFixture) -> None:
    trace, steps = Trace(), Steps()

    async def trial() -> None:
        stuck = trace.step("stuck", stop=never, seconds=0.01)
        await steps.start([trace.step("a"), stuck, trace.step("broken", stop=fail), trace.step("z")])
        with pytest.raises(UncleanStopError, match=r"broken: failed \(OSError: no room\); stuck: not over") as caught:
            await steps.stop()
        assert caught.value.is_late

    asyncio.run(trial())
    assert trace.seen[-2:] == ["-z", "-a"]
    assert "stop: stuck: not over after" in caplog.text


def test_a_thread_that_hangs_does_not_keep_the_next_steps() -> None:
    trace, steps, release = Trace(), Steps(), threading.Event()

    async def hang() -> None:
        await asyncio.to_thread(release.wait)

    async def trial() -> None:
        await steps.start([trace.step("a"), trace.step("thread", stop=hang, seconds=0.01)])
        with pytest.raises(UncleanStopError, match="thread: not over"):
            await steps.stop()
        release.set()

    asyncio.run(trial())
    assert trace.seen[-1] == "-a"


def test_steps_that_are_left_over_by_late_ones_still_run() -> None:
    trace, steps = Trace(), Steps(total_s=0.01)

    async def brief() -> None:
        await asyncio.sleep(0.001)
        trace.seen.append("-brief")

    async def trial() -> None:
        await steps.start([trace.step("brief", stop=brief), *(trace.step(f"{n}", stop=never) for n in range(3))])
        with pytest.raises(UncleanStopError, match="2: not over"):
            await steps.stop()

    asyncio.run(trial())
    assert trace.seen[-1] == "-brief"


def test_a_cut_stop_takes_back_vital_steps_alone(caplog: pytest.LogCaptureFixture) -> None:
    trace, steps, at_store = Trace(), Steps(), asyncio.Event()

    async def close() -> None:
        at_store.set()
        await asyncio.sleep(0.01)
        trace.seen.append("-store")

    async def trial() -> None:
        stuck = trace.step("stuck", stop=never, seconds=60)
        await steps.start([trace.step("http"), trace.step("store", stop=close, vital=True), trace.step("puts"), stuck])
        stopping = asyncio.ensure_future(steps.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await at_store.wait()
        stopping.cancel()
        with pytest.raises(UncleanStopError, match="stuck: cut short"):
            await stopping

    asyncio.run(trial())
    assert trace.seen[-1] == "-store"
    assert "-puts" not in trace.seen
    assert "-http" not in trace.seen
    assert "stop: puts: skipped" in caplog.text
