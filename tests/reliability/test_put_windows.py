"""Rows S01, S02 and S06 for single puts through windows: no system call is between the stores of such a put."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore
from rocketflow_store.format.index_layout import HEADER_SIZE
from rocketflow_store.kernel import COMPILED
from tests.reliability.power import Run, after_power_loss, config, keys_missing
from tests.reliability.test_kills import acknowledged, command, killed, recovered
from tests.reliability.test_power_loss import IMAGES, SHARES, STEPS
from tests.support.checker import Place, check
from tests.support.put_windows import windows_at_once
from tests.support.results import Tally
from tests.support.simulated_disk import SimulatedDisk
from tests.support.trials import FULL, LEVEL, SEED, seeds
from tests.support.workload import SMALL, body

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILED is None, reason="this machine has no compiled kernel"),
]

CHOSEN, CUTS = (0.3, 40) if FULL else (0.08, 3)
"""The share of puts that are killed, and the kills within a put, besides those before and after its stores."""
Store = tuple[str, int, int]
"""File, position, byte."""


def test_killed_between_any_two_stores_of_a_put(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts, rng = tally("S01", "async, windows"), random.Random(SEED)
    live, before, acked = tmp_path / "live", tmp_path / "before", dict[int, Place]()
    images = spread = 0
    with windows_at_once() as routes, MessageStore.open(live, config("async")) as store:
        route = routes[0]
        store.create_topic("t", 2)
        for number in range(150):
            shutil.rmtree(before, ignore_errors=True)
            is_chosen = number > 4 and rng.random() < CHOSEN
            if is_chosen:
                shutil.copytree(live, before)
            put = route.taken
            result = store.put_message(Message("t", body(number), keys=[f"k{number}"], tags="w"))
            if is_chosen and route.taken > put:
                stores = _stores(before, live)
                for cut in [0, len(stores), *rng.sample(range(1, len(stores)), k=min(CUTS, len(stores) - 1))]:
                    image = tmp_path / "image"
                    _write(before, image, stores[:cut])
                    with MessageStore.open(image, config("async")) as opened:
                        there = opened.max_phy_offset > result.physical_offset
                        next_one = opened.put_message(
                            Message("t", body(number + 1), keys=[f"k{number + 1}"], queue_id=0)
                        )
                        assert next_one.stored
                    verdict = check(image, acked, {*range(number + 2)})
                    context = f"seed {SEED}, put {number}, {cut} of {len(stores)} bytes stored"
                    assert not keys_missing(image), context
                    counts.trial(verdict, context, hit=not there)
                    images, spread = images + 1, spread + there
                    shutil.rmtree(image)
            acked[number] = result.queue_id, result.queue_offset
    assert 0 < spread < images


def _stores(before: Path, after: Path) -> list[Store]:
    """Return the bytes that a put stored, in the order of its stores: record, unit, index entries, confirm offset."""
    found: list[tuple[int, Store]] = []
    order = {"commitlog": 0, "consumequeue": 1, "index": 2, "rocketflow": 4}
    for path in sorted(after.rglob("*")):
        name = str(path.relative_to(after))
        rank = order.get(name.split("/")[0])
        if rank is None or not path.is_file() or not (before / name).exists():
            continue
        old, new = (before / name).read_bytes(), path.read_bytes()
        entries_at = HEADER_SIZE + 4 * SMALL["max_hash_slot_num"]
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:  # of the index: entries, slots, header
                late = 0 if rank != 2 or at >= entries_at else 0.5 if at >= HEADER_SIZE else 1
                found.append((rank + late, (name, at, other)))  # type: ignore[arg-type]
    return [store for _, store in sorted(found, key=lambda one: one[0])]


def _write(before: Path, image: Path, stores: list[Store]) -> None:
    """Write the files with some stores of the put."""
    shutil.copytree(before, image)
    for name, at, octet in stores:
        with (image / name).open("r+b") as file:
            file.seek(at)
            file.write(bytes([octet]))


@pytest.mark.skipif(LEVEL == "sample", reason="test_kills.py does so: RF_FAULTS=1 runs it")
def test_killed_at_a_random_time_again_and_again(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    counts = tally("S02", "async, windows")
    for seed in seeds(2, 20):
        rng, store = random.Random(seed), tmp_path / "s"
        acked: dict[int, Place] = {}
        attempted: set[int] = set()
        first = 0
        for trial in range(4):
            now = acknowledged(killed(rng, command(store, "windows", first, 100_000), timed=0.0))
            acked |= now
            highest = max([*now, first - 1]) + 1
            attempted |= {*range(first, highest + 1)}
            first = highest + 1
            counts.trial(recovered(store, acked, attempted), f"seed {seed}, kill {trial}")
        shutil.rmtree(store)


def test_power_loss(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Unsynced sectors that were stored through a window are old or new, as those of a write."""
    counts = tally("S06", "async, windows")
    lost = kept = through = 0
    for seed in seeds(3, 30):
        rng = random.Random(seed)
        (tmp_path / "run" / "live").mkdir(parents=True)
        with SimulatedDisk(tmp_path / "run" / "live") as disk, windows_at_once() as routes:
            run = Run(disk, "async", rng, lambda _, rng=rng: rng.random() < IMAGES / STEPS, single=True)  # type: ignore[misc]
            run.go(STEPS)
        through += routes[0].taken
        for number, instant in enumerate(run.instants[: 2 * IMAGES]):
            image, p = tmp_path / "image", SHARES[number % len(SHARES)]
            instant.state.crash(image, seed, p)
            context = f"seed {seed}, image {number} (p={p}, before {instant.call.kind})"
            missing, promised = after_power_loss(image, instant, run, context)
            lost, kept = lost + len(missing), kept + promised
            counts.trial(None, context, hit=bool(missing))
            shutil.rmtree(image)
        shutil.rmtree(tmp_path / "run")
    assert lost > 0
    assert min(kept, through) > 100
