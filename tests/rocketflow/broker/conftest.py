"""Fixtures of the tests of brokers in the test's own process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from rocketflow.aio import steps
from rocketflow_store.records.encoding import sent_frames
from rocketflow_store.records.encoding.message_encoder import MessageEncoder
from tests.support.sender import Sender

_OF_STOPS: Final = frozenset({"test_steps.py", "test_stop.py", "test_stalled_disk.py"})
"""Tests of stops that are late, or take as long as they may."""


@pytest.fixture(autouse=True)
def unhurried(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each step of a stop take its time: beside a load, a sync of timer messages took more than its second."""
    if request.path.name not in _OF_STOPS:
        monkeypatch.setattr(steps, "LEAST_SECONDS", 60.0)


@pytest.fixture
def senders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Sender, Sender]]]:
    """Make two senders with the same options, the second without the kernel; both make the same UNIQ_KEYs."""
    made: list[Sender] = []
    keys: dict[MessageEncoder, int] = defaultdict(int)

    def next_uniq_key(encoder: MessageEncoder) -> str:
        keys[encoder] += 1
        return f"NEW{keys[encoder]}"

    monkeypatch.setattr(MessageEncoder, "next_uniq_key", next_uniq_key)
    # after a slow append others run in a thread, where refusals overtake answers
    monkeypatch.setattr("rocketflow.broker.puts.put_gatherer.SLOW_SECONDS", float("inf"))

    def make(**options: Any) -> tuple[Sender, Sender]:
        made.append(Sender(tmp_path / "on", together=True, **options))
        with monkeypatch.context() as patch:
            patch.setattr(sent_frames, "COMPILED", None)
            made.append(Sender(tmp_path / "off", together=False, **options))
        return made[0], made[1]

    yield make
    for one in made:
        one.close()
