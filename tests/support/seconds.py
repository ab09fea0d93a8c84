"""A pytest plugin that notes how long each test file takes, and ends a run when its time is over.

`tests.project.changed` reads the seconds, and gives a run its time.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Final

import pytest

KEY: Final = "rocketflow/seconds"
"""In pytest's cache: seconds of each test file without the tests marked `slow`, of its last run."""
UNTIL: Final = "RF_UNTIL"
"""Time of day (s) after which a run begins no test. Such a run keeps the order of its files."""
_OVER: Final = "the time of this run is over"

_seconds: Counter[str] = Counter()
_cut: set[str] = set()
"""Files some of whose tests did not run."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if UNTIL in os.environ and time.time() > float(os.environ[UNTIL]):
        pytest.skip(_OVER)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file = report.nodeid.split("::", 1)[0]
    _seconds[file] += 0 if "slow" in report.keywords else round(report.duration * 1000)
    if report.skipped and _OVER in str(report.longrepr):
        _cut.add(file)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    cache = getattr(config, "cache", None)  # none with -p no:cacheprovider
    partly = config.option.keyword or any("::" in one for one in config.args)
    if cache is not None and not partly and not hasattr(config, "workeroutput"):
        known = {file: ms / 1000 for file, ms in _seconds.items() if file not in _cut}
        cache.set(KEY, {**cache.get(KEY, {}), **known})
