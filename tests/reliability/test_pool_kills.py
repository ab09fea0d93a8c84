"""Row S02 with a TransientStorePool: a kill loses only uncommitted messages, and only a suffix."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore
from tests.reliability.test_kills import acknowledged, command, killed
from tests.support.checker import Place, check, numbers_in_topic
from tests.support.results import Tally
from tests.support.trials import seeds

pytestmark = pytest.mark.slow

KILLS_A_STORE, MOST_KILLS = 6, 40
"""The second number is for kills until one has lost an uncommitted message: how many do depends on the machine."""


def committed(output: str) -> int:
    """Return the last number for which the writer reported that it and all before it are committed; -1 without."""
    words = [line.split() for line in output.splitlines()]
    return max(
        (int(one[1]) for one in words if len(one) == 2 and one[0] == "committed" and one[1].isdigit()), default=-1
    )


def test_killed_with_a_store_pool(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S02", "pool")
    held_back = kept = 0
    for seed in seeds(2, 30):
        rng = random.Random(seed)
        store = tmp_path / "s"
        promised: dict[int, Place] = {}
        attempted: set[int] = set()
        first = 0
        for trial in range(MOST_KILLS):
            if trial >= KILLS_A_STORE and held_back:
                break
            output = killed(rng, command(store, "pool", first, 100_000), timed=0.2 if trial > 2 else 0.0)
            now, safe = acknowledged(output), committed(output)
            promised |= {number: place for number, place in now.items() if number <= safe}
            highest = max([*now, first - 1]) + 1
            attempted |= set(range(first, highest + 1))
            context = f"seed {seed}, kill {trial}"
            verdict = None
            if (store / "consumequeue" / "t").is_dir():
                with MessageStore.open(store):
                    pass
                verdict = check(store, promised, attempted)
                there = {number for number in numbers_in_topic(store, "t").values() if number >= first}
                assert there == set(range(first, first + len(there))), f"{context}: a gap before a stored message"
                promised |= {number: place for number, place in now.items() if number in there}
                held_back += len(set(now) - there)
                kept += len(there)
            counts.trial(verdict, context)
            first = highest + 1
        shutil.rmtree(store)
    assert kept > 0
    assert held_back > 0, "no kill lost an uncommitted message"
