"""A pytest plugin that collects the counts of the crash tests.

With several test processes each worker sends its counts to the controller: a row's counts with the report of its
test, figures and rare paths when the worker ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final

import pytest

from tests.support import results, sometimes
from tests.support.results import Tally
from tests.support.trials import LEVEL

_TALLIES: list[Tally] = []
PASSED = pytest.StashKey[bool]()
"""True for an item whose test passed, False if it failed."""
_COUNTS: Final = "crash test counts"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Callable[..., Tally]]:
    """Provide `tally(row, variant)`, which returns the counter of a row; the run prints all counters at its end."""
    made: list[Tally] = []

    def make(row: str, variant: str = "") -> Tally:
        made.append(Tally(row, variant))
        return made[-1]

    yield make
    for one in made:
        one.seconds = time.monotonic() - one.began
        one.passed = request.node.stash.get(PASSED, False)
    request.node.user_properties.extend((_COUNTS, one.as_dict()) for one in made)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        _TALLIES.extend(Tally(**counts) for name, counts in report.user_properties if name == _COUNTS)


def _never() -> list[str]:
    return sometimes.never({one.row for one in _TALLIES}) if LEVEL != "sample" else []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    sent = getattr(node, "workeroutput", {})
    results.join_measured(sent.get("measured", {}))
    sometimes.counts.update(sent.get("sometimes", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["measured"] = results.all_measured()
        output["sometimes"] = dict(sometimes.counts)
    elif _never() and session.exitstatus == 0:
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
