"""A loop that is late is counted, and the log names what it ran."""

from __future__ import annotations

import asyncio
import time

import pytest

from rocketflow.aio.loop import run
from rocketflow.aio.loop_lag import LAG_BOUNDS_S, LoopLag


def watched(seconds: float, block: bool) -> LoopLag:
    """Return the lag of a loop that a handler of RocketFlow blocks for 0.4 s, or that rests."""
    handlers: dict[str, object] = {"__name__": "rocketflow.broker.puts.sends", "sleep": time.sleep}
    exec("def blocks():\n    sleep(0.4)", handlers)

    async def main() -> LoopLag:
        lag = LoopLag(report_s=seconds)
        watch = asyncio.ensure_future(lag.watch())
        await asyncio.sleep(0.1)
        if block:
            handlers["blocks"]()  # type: ignore[operator]
        await asyncio.sleep(seconds)
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        return lag

    return run(main())


def test_a_handler_that_blocks_the_loop_is_counted_and_named(caplog: pytest.LogCaptureFixture) -> None:
    found = watched(0.3, block=True).histogram
    assert sum(found.counts[LAG_BOUNDS_S.index(0.25) :]) >= 1
    assert found.total >= 0.25
    [record] = [one for one in caplog.records if one.name == "rocketflow.aio"]
    assert "rocketflow.broker.puts.sends.blocks (line 2)" in record.getMessage()


def test_a_loop_without_work_names_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert watched(0.3, block=False).histogram.total < 0.3
    assert not [one for one in caplog.records if "it ran" in one.getMessage()]
