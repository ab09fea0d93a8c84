"""Counts of the crash tests, and the Spark driver that they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator

import pytest

from tests.reliability import results, sometimes
from tests.reliability.driver_process import Driver
from tests.reliability.results import Tally
from tests.reliability.trials import LEVEL

_TALLIES: list[Tally] = []
_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Callable[..., Tally]]:
    """`tally(row, variant)`: the counter of a row, shown at the end of the run."""
    made: list[Tally] = []

    def make(row: str, variant: str = "") -> Tally:
        made.append(Tally(row, variant))
        return made[-1]

    yield make
    for one in made:
        one.seconds = time.monotonic() - one.began
        one.passed = request.node.stash.get(_PASSED, False)
    _TALLIES.extend(made)


@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A Spark driver in a process of its own, for all trials that leave it alive."""
    with Driver(tmp_path_factory.mktemp("driver") / "d") as made:
        yield made


def _never() -> list[str]:
    return sometimes.never({one.row for one in _TALLIES}) if LEVEL != "sample" else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _never() and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _TALLIES:
        tallies = results.merged(_TALLIES)
        path = results.write(tallies)
        terminalreporter.section("crash tests")
        for line in results.table(tallies):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"written to {path}")
        if sometimes.counts:
            seen = ", ".join(f"{name} {count}" for name, count in sorted(sometimes.counts.items()))
            terminalreporter.write_line(f"rare paths: {seen}")
        if _never():
            terminalreporter.write_line(f"NEVER SEEN (was the fault injected?): {', '.join(_never())}", red=True)
