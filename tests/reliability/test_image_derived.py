"""Rows S12 and S13: damage to queues and index loses no message, returns no wrong one, and is repaired."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from tests.reliability.images import (
    IMAGE_CONFIG,
    STOPS,
    Images,
    found_places,
    fresh,
    hurt,
    judged,
    make_images,
    repaired,
    served_of,
    used,
)
from tests.reliability.test_killed_recoveries import calls_of_recovery, contents, killed_at, recover
from tests.support.results import Tally
from tests.support.trials import FULL, seeds

pytestmark = pytest.mark.slow

KINDS = ["flip", "zero", "noise", "cut", "longer", "missing", "empty", "twice", "swapped"]
QUEUE_KINDS = [*KINDS, "directory missing", "a file in its place", "another queue's"]
INDEX_KINDS = [*KINDS, "directory missing", "cycle", "far chain", "all slots"]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return make_images(tmp_path_factory.mktemp("images"))


def hurt_queue(directory: Path, kind: str, rng: random.Random) -> None:
    """Damage a queue's directory or one of its files."""
    if kind == "directory missing":
        directory.rename(directory.parents[2] / "removed")
    elif kind == "a file in its place":
        directory.rename(directory.parents[2] / "removed")
        directory.write_bytes(b"not a directory")
    elif kind == "another queue's":
        other = directory.with_name("1" if directory.name == "0" else "0")
        sources, targets = sorted(other.iterdir()), sorted(directory.iterdir())
        for one, another in zip(targets, sources, strict=True):
            one.write_bytes(another.read_bytes())
    else:
        hurt(rng.choice(sorted(directory.iterdir())), kind, rng)


def test_a_damaged_queue(images: Images, tally: Callable[..., Tally]) -> None:
    """S12: no wrong body before the repair; after an orderly stop the open knows the earlier state and repairs it."""
    counts = {stop: tally("S12", stop) for stop in STOPS}
    for seed in seeds(200, 2000):
        rng = random.Random(seed)
        stop, kind = STOPS[seed % 2], QUEUE_KINDS[seed // 2 % len(QUEUE_KINDS)]
        planted = fresh(images.take(stop))
        directory = planted.path / "consumequeue" / rng.choice(["orders", "bills"]) / rng.choice("01")
        hurt_queue(directory, kind, rng)
        context = f"seed {seed}, {stop}, {kind} of {directory}"
        served_of(planted, context)
        if stop == "closed":
            used(planted, context)
            counts[stop].trial(judged(planted, set(), context), context)
        else:
            with MessageStore.open(planted.path, IMAGE_CONFIG):
                pass
            served_of(planted, context)
        counts[stop].trial(repaired(planted, set(), context), f"{context}, repaired")


HEALS = {
    "a queue": ["consumequeue/orders/0"],
    "queues and index": ["consumequeue/orders/0", "consumequeue/bills/1", "index"],
    "a queue, without a record": ["consumequeue/bills/0", "rocketflow/stop"],
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("name", HEALS)
def test_healing_is_killed(images: Images, name: str, stop: str, tally: Callable[..., Tally]) -> None:
    """E2: an open that rebuilds queues and index is killed at any call; the next open has the same result."""
    counts = tally("S12", f"{stop}, killed")
    room = images.room / "healing"
    shutil.rmtree(room, ignore_errors=True)
    planted = images.take(stop)
    for one in HEALS[name]:
        path = planted.path / one
        path.rename(images.room / "removed")
        shutil.rmtree(images.room / "removed") if (images.room / "removed").is_dir() else (
            images.room / "removed"
        ).unlink()
    calls = calls_of_recovery(planted.path, room / "undisturbed", "sync")
    assert calls > 20
    wanted = contents(room / "undisturbed")
    for seed in seeds(6, calls):
        nth = 1 + seed % calls if FULL else random.Random(seed).randrange(1, calls + 1)
        killed_at(planted.path, room / "killed", "sync", nth)
        recover(room / "killed", "sync")
        context = f"seed {seed}, {name}, {stop}, call {nth} of {calls}"
        there = contents(room / "killed")
        assert [one for one in wanted if there.get(one) != wanted[one]] == [], context
        counts.trial(judged(replace(planted, path=room / "killed"), set(), context), context)
        shutil.rmtree(room / "killed")


def chained(file: Path, kind: str, rng: random.Random) -> None:
    """Write entries that form a ring or point far away, or slots that all point to one entry."""
    raw = bytearray(file.read_bytes())
    slots, entries = 40, 40 + 4 * IMAGE_CONFIG.max_hash_slot_num
    (count,) = struct.unpack_from(">i", raw, 36)
    numbers = list(range(1, max(min(count, IMAGE_CONFIG.max_index_num), 2)))
    for number in numbers:
        previous = {"cycle": numbers[number % len(numbers)], "far chain": rng.choice([-1, 1 << 30, count + 1])}.get(
            kind
        )
        if previous is not None:
            struct.pack_into(">i", raw, entries + 20 * number + 16, previous)
    for slot in range(IMAGE_CONFIG.max_hash_slot_num if kind == "all slots" else 0):
        struct.pack_into(">i", raw, slots + 4 * slot, rng.choice(numbers))
    file.write_bytes(raw)


def test_a_damaged_index(images: Images, tally: Callable[..., Tally]) -> None:
    """S13: a lookup ends with the right message or none; after the repair every key finds its message."""
    counts = {stop: tally("S13", stop) for stop in STOPS}
    for seed in seeds(200, 2000):
        rng = random.Random(seed)
        stop, kind = STOPS[seed % 2], INDEX_KINDS[seed // 2 % len(INDEX_KINDS)]
        planted = fresh(images.take(stop))
        index = planted.path / "index"
        file = rng.choice(sorted(index.iterdir()))
        context = f"seed {seed}, {stop}, {kind} of {file}"
        if kind == "directory missing":
            index.rename(planted.path / "removed")
        elif kind in ("cycle", "far chain", "all slots"):
            chained(file, kind, rng)
        else:
            hurt(file, kind, rng)
        found_places(planted, context)
        with StoreReader(planted.path) as reader:
            for key in ("no such key", "orders-0-1"):
                assert not reader.query_message("bills", key), context
        before = set(planted.places)
        used(planted, context)
        found = found_places(planted, context)
        if stop == "closed":
            assert found == before, f"{context}: {len(before - found)} keys are not found"
        counts[stop].trial(repaired(planted, set(), context), f"{context}, repaired")
        assert found_places(planted, context) == before, context
