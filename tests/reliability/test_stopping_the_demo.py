"""Row S27 for the main job: the demo gets a stop signal in each phase; no process stays, the store is intact."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.support.checker import findings
from tests.support.results import Tally
from tests.support.trials import COMMAND_LINE, LEVEL, environment, processes_marked, seeds

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(LEVEL == "sample", reason="a minute for a demo: make test-faults runs it"),
]

FLIGHTS, DELAYS = 336_776, 128_432
STOPS = {
    "SIGTERM": [signal.SIGTERM],
    "SIGINT": [signal.SIGINT],
    "SIGTERM twice": [signal.SIGTERM, signal.SIGTERM],
    "SIGHUP, SIGINT": [signal.SIGHUP, signal.SIGINT],
}


class Demo:
    """A running demo and all of its processes, which have a mark in their environment."""

    def __init__(self, home: Path, temporary: Path) -> None:
        self.home, self._temporary = home, temporary
        temporary.mkdir(exist_ok=True)
        self._mark = f"RF_DEMO={home}"
        env = environment(
            RF_DEMO=str(home), TMPDIR=str(temporary), JAVA_TOOL_OPTIONS=f"-Djava.io.tmpdir={temporary} -XX:-UsePerfData"
        )
        self._output = temporary.parent / "output"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", COMMAND_LINE, "demo", "--dir", str(home)],
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
                env=env,
            )

    def has_cleaned_up(self) -> bool:
        """Return whether the demo has removed the files of an earlier one."""
        return "flights read" in self._output.read_text()

    def processes(self) -> list[str]:
        """Return the command lines of its running processes."""
        return processes_marked(self._mark)

    def temporary_directories(self) -> list[str]:
        """Return the temporary directories that Spark has not removed."""
        return [one.name for one in self._temporary.iterdir() if one.is_dir()]


def _loads(demo: Demo) -> bool:
    return bool(demo.processes())


def _appends(demo: Demo) -> bool:
    return (demo.home / "store" / "abort").exists()


def _starts_spark(demo: Demo) -> bool:
    return any("org.apache.spark" in one or "spark-submit" in one for one in demo.processes())


def _has_a_driver(demo: Demo) -> bool:
    return any("jobs/stream.py" in one and "java" not in one and "spark-submit" not in one for one in demo.processes())


def _streams(demo: Demo) -> bool:
    return (demo.home / "checkpoint" / "offsets" / "0").exists()


def _commits(demo: Demo) -> bool:
    return _streams(demo) and _appends(demo)


def _runs_again(demo: Demo) -> bool:
    return (demo.home / "checkpoint" / "commits" / "0").exists() and _starts_spark(demo)


PHASES: dict[str, Callable[[Demo], bool]] = {
    "commits": _commits,
    "appends": _appends,
    "has a driver": _has_a_driver,
    "loads": _loads,
    "streams": _streams,
    "starts Spark": _starts_spark,
    "runs again": _runs_again,
}


def test_demo_stops_on_a_signal_in_each_phase(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Each trial starts with the files of the stopped one before, which the demo removes."""
    counts = tally("S27", "demo")
    home = tmp_path / "demo"
    for trial, seed in enumerate(seeds(4, 20)):
        phase, reached = [*PHASES.items()][trial % len(PHASES)]
        name, signals = [*STOPS.items()][(seed + trial // len(PHASES)) % len(STOPS)]
        demo = Demo(home, tmp_path / "tmp")
        while not (reached(demo) and (phase == "loads" or demo.has_cleaned_up())):
            assert demo.process.poll() is None, demo.process.communicate()[1]
            time.sleep(0.01)
        if phase in ("loads", "streams"):
            time.sleep(random.Random(seed).uniform(0, 1))  # the random time is the fault here
        for one in signals:
            demo.process.send_signal(one)
        _, error = demo.process.communicate(timeout=120)
        code = demo.process.returncode
        context = f"seed {seed}, {phase}, {name}, exit {code}\n{error}"
        assert demo.processes() == [], context
        assert demo.temporary_directories() == [], context
        assert "Traceback" not in error, context
        if phase == "loads":
            assert code in (128 + signals[0], -signals[0]), context
        else:
            assert code == 128 + signals[0], context
            assert f"stopped by {signals[0].name}" in error, context
        if (home / "store" / "commitlog").exists():
            check_store(home / "store", context)
        counts.trial(None, context)


def check_store(store: Path, context: str) -> None:
    """Check that all flights or those of a stopped append are there, and all rows of the one batch or none."""
    clean = not (store / "abort").exists()
    with MessageStore.open(store) as opened:
        assert opened.recovery.abort_found != clean, context
        assert opened.recovery.quarantined == [], context
        counts = {
            topic: sum(high - low for low, high in (opened.bounds(topic, queue) for queue in opened.queues(topic)))
            for topic in opened.topics()
        }
    assert counts.get("flights", 0) <= FLIGHTS, context
    assert counts.get("flight-delays", 0) in (0, DELAYS), context
    assert findings(store) == [], context
