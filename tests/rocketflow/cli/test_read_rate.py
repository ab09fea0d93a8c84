"""`store verify --bytes-per-second`: how long a check waits, and what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow.cli.app import run
from rocketflow.cli.store import read_rate
from rocketflow.cli.store.read_rate import ReadRate


class Clock:
    """A clock that only sleeps move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_check_sleeps_until_its_bytes_may_have_been_read() -> None:
    clock, reported = Clock(), []
    rate = ReadRate(1_000, lambda done, total: reported.append((done, total)), clock.time, clock.sleep)
    rate(500, 5_000)
    assert clock.slept == [0.5]
    clock.now += 0.25  # reading takes time itself
    rate(1_000, 5_000)
    assert clock.slept == [0.5, 0.25]
    clock.now += 10.0
    rate(5_000, 5_000)
    assert clock.slept == [0.5, 0.25], "a check that is late does not sleep"
    assert reported == [(500, 5_000), (1_000, 5_000), (5_000, 5_000)]


def test_a_slow_check_finds_the_same(
    golden_store: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(read_rate, "ReadRate", lambda rate, step: ReadRate(rate, step, sleep=slept.append))
    path = str(golden_store("basic-53"))
    found = []
    for more in ([], ["--bytes-per-second", "1000"]):
        assert run(["store", "verify", path, "--json", *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert slept
    assert {key: one for key, one in found[0].items() if key != "seconds"} == {
        key: one for key, one in found[1].items() if key != "seconds"
    }
    assert run(["store", "verify", path, "--bytes-per-second", "0"]) == 2
