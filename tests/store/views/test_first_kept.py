"""The minimum offset of a queue whose begin retention removed does not depend on single units."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store.format.consume_queue_unit import PRE_BLANK_SIZE
from rocketflow_store.records.arrow.unit_types import UNIT_DTYPE
from rocketflow_store.views.queues.consume_queue import ConsumeQueue
from rocketflow_store.views.queues.first_kept import first_kept
from tests.support.trials import seeds

COUNT = 3000
PER_FILE = 700
SIZE = 100


def damage(units: np.ndarray, kind: str, rng: random.Random) -> tuple[int, int]:
    """Damage some units; return their range."""
    width = 1 if kind == "flip" else rng.choice([1, 3, 205])
    start = rng.randrange(COUNT - width)
    part = units[start : start + width]
    if kind == "flip":
        part["phy_offset"] ^= 1 << rng.randrange(40)
    elif kind == "zero":
        part[:] = np.zeros((), UNIT_DTYPE)
    elif kind == "filled":
        part[:] = np.array((0, PRE_BLANK_SIZE, 0), UNIT_DTYPE)
    else:
        other = rng.randrange(COUNT - width)
        part[:] = units[other : other + width].copy()
    return start, start + width


@pytest.mark.parametrize("kind", ["flip", "zero", "filled", "another block"])
def test_damaged_units_do_not_move_the_minimum_offset(tmp_path: Path, kind: str) -> None:
    for seed in seeds(40, 400, least=40):
        rng = random.Random(seed)
        units = np.zeros(COUNT, UNIT_DTYPE)
        units["phy_offset"], units["msg_size"] = np.arange(COUNT) * SIZE, SIZE
        first = rng.choice([0, rng.randrange(COUNT)])
        start, stop = damage(units, kind, rng)
        queue = ConsumeQueue(tmp_path / f"{kind}{seed}" / "t" / "0", "t", 0, PER_FILE * 20, write=True)
        queue.put(0, units)
        found = first_kept(queue, COUNT, first * SIZE)
        queue.close()
        if kind == "filled" and start == 0 and first == 0:
            continue  # fillers before a queue's first message
        context = f"seed {seed}, {kind} of [{start}, {stop}), first {first}, found {found}"
        width = stop - start
        if start <= first <= stop:  # the units around the result are damaged
            assert start <= found <= max(first, stop if kind in ("flip", "another block") else 0), context
        elif kind == "another block" and start - width < first < stop + width:
            assert found in (first, start, stop), context  # more units of another place than true ones before the cut
        else:
            assert found == first, context
