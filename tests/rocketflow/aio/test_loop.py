"""A server's process: its signals, and a stop that does not end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.trials import environment

PROGRAM = """
import asyncio, threading
from rocketflow.aio import loop
from rocketflow.aio.steps import Step, Steps

loop.STOP_SECONDS, loop.CUT_SECONDS = {stop_s}, {cut_s}
hang = threading.Event().wait

def say(text):
    return lambda: print(text, flush=True)

async def begin(name, run):
    say(name)()
    await run()

def in_thread():
    return asyncio.to_thread(hang)

def forever():
    return asyncio.Event().wait()

async def keep_on():
    while True:
        try:
            await forever()
        except asyncio.CancelledError:
            say("keeps on")()

class Server:
    def __init__(self):
        self.steps = Steps()
    async def start(self):
        {start}
        await self.steps.start([
            Step("store", say("opened"), say("closed"), vital=True),
            Step("puts", None, say("finished")),
            Step("stuck", None, {stuck}, seconds={seconds}),
        ])
    async def stop(self):
        {stop}

loop.serve(Server(), say("serves"))
say("stopped")()
"""
USUAL = {
    "start": "pass",
    "stuck": "None",
    "seconds": "60",
    "stop": "await self.steps.stop()",
    "stop_s": "60",
    "cut_s": "60",
}


def served(signals: Sequence[tuple[str, int]], **changes: str) -> tuple[int, list[str], str]:
    """Run a server; send each signal once the line before it is printed. Return exit code, lines and errors."""
    program = PROGRAM.format(**{**USUAL, **changes})
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = []
        for after, number in signals:
            while not lines or lines[-1] != after:
                line = process.stdout.readline()
                assert line, process.stderr.read()
                lines.append(line.strip())
            process.send_signal(number)
        out, error = process.communicate(timeout=60)
    return process.returncode, lines + out.split("\n")[:-1], error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_in_order(number: int) -> None:
    assert served([("serves", number)]) == (0, ["opened", "serves", "finished", "closed", "stopped"], "")


def test_a_second_signal_closes_the_store_at_once_and_names_what_it_skips() -> None:
    stuck = 'lambda: begin("stuck", forever)'
    code, lines, error = served([("serves", signal.SIGTERM), ("stuck", signal.SIGTERM)], stuck=stuck)
    assert (code, lines) == (1, ["opened", "serves", "stuck", "closed"])
    assert "the stop is cut short: a second signal" in error
    assert "stop: puts: skipped" in error
    assert "error: the stop was not clean: stuck: cut short" in error


def test_a_step_that_hangs_in_a_thread_is_named_and_does_not_keep_the_process() -> None:
    code, lines, error = served([("serves", signal.SIGTERM)], stuck="in_thread", seconds="0.1")
    assert (code, lines) == (1, ["opened", "serves", "finished", "closed"])
    assert "stop: stuck: not over after" in error
    assert "error: the stop was not clean: stuck: not over after" in error


@pytest.mark.parametrize("wait", ["in_thread", "forever"])
def test_a_stop_that_takes_too_long_is_cut_short(wait: str) -> None:
    code, lines, error = served([("serves", signal.SIGTERM)], stuck=wait, stop_s="0.1")
    assert (code, lines) == (1, ["opened", "serves", "closed"])
    assert "the stop is cut short: it took longer than 0.1 s" in error
    assert "stuck: cut short" in error


def test_a_stop_that_goes_on_after_its_cut_ends_with_the_process() -> None:
    code, lines, error = served([("serves", signal.SIGTERM)], stop="await keep_on()", stop_s="0.1", cut_s="0.1")
    assert (code, lines) == (1, ["opened", "serves", "keeps on"])
    assert "error: the stop was not over 0.1 s after it was cut short" in error


def test_a_signal_during_the_start_stops_in_order_after_it() -> None:
    start = "say('starts')(); await asyncio.sleep(0.3)"
    code, lines, error = served([("starts", signal.SIGTERM)], start=start)
    assert (code, lines, error) == (0, ["starts", "opened", "serves", "finished", "closed", "stopped"], "")


def test_a_start_that_hangs_ends_soon_after_a_signal() -> None:
    start = "say('starts')(); await in_thread()"
    code, lines, error = served([("starts", signal.SIGTERM)], start=start, stop_s="0.1")
    assert (code, lines) == (1, ["starts"])
    assert "error: the start was not over when it had to stop" in error
