"""Fixtures of the tests of brokers in the test's own process."""

from __future__ import annotations

from typing import Final

import pytest

from rocketflow.aio import steps

_OF_STOPS: Final = frozenset({"test_steps.py", "test_stop.py", "test_stalled_disk.py"})
"""Tests of stops that are late, or take as long as they may."""


@pytest.fixture(autouse=True)
def unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step of a stop take its time: beside a load, a sync of timer messages took more than its second."""
    if request.path.name not in _OF_STOPS:
        monkeypatch.setattr(steps, "LEAST_SECONDS", 60.0)
