"""Rows S09, S10, S11: damage in the log loses the records that it touched, and no other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, SkipFaults, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.model.errors import CorruptRecordError, StoreAccessError, StoreVersionError
from tests.reliability.images import (
    ENDS,
    IMAGE_CONFIG,
    LOG_FILE,
    STOPS,
    Images,
    findings_of,
    fresh,
    judged,
    make_images,
    names,
    repaired,
    touching,
    used,
)
from tests.support.damage import Place, Planted, flip, key_of
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, sampled, seeds, sweep

pytestmark = pytest.mark.slow

HEADER = 88
BLOCK = 4096
FOUND_BLOCKS = (7_000_141, 9_100_161)
"""Trials that once failed: an end mark copied into the middle of a file; the last messages of two queues lost."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return make_images(tmp_path_factory.mktemp("images"))


def test_a_flipped_bit(images: Images, tally: Callable[..., Tally]) -> None:
    """S09: the record is lost and no other; `verify` names it; its bytes stay in the log or are in quarantine."""
    counts = {stop: tally("S09", stop) for stop in STOPS}
    for seed in seeds(300, 3000):
        rng = random.Random(seed)
        stop = STOPS[seed % 2]
        planted = fresh(images.take(stop))
        place = rng.choice(sorted(planted.places))
        phy_offset, size = planted.places[place]
        byte = seed % HEADER if rng.random() < 0.7 else rng.randrange(size)
        bit = rng.randrange(8)
        context = f"seed {seed}, {stop}, {place}, byte {byte} of {size}, bit {bit}"
        file, position = planted.log_file(phy_offset)
        flip(file, position + byte, 1 << bit)
        damaged = file.read_bytes()[position : position + size]
        assert not judged(planted, {place}, f"{context}, before recovery").lost, context
        assert place not in planted.served(), context
        found = findings_of(planted)
        assert names(found, file, position + byte, position + byte + 1), f"{context}: {found}"
        used(planted, context)
        verdict = judged(planted, {place}, context)
        kept = [one for one in (planted.path / "quarantine").rglob("*") if one.is_file()]
        stays = file.read_bytes()[position : position + size] == damaged
        assert stays or any(one.read_bytes().startswith(damaged) for one in kept), f"{context}: no evidence"
        counts[stop].trial(verdict, context)
        if seed % 4 == 0 or FULL:
            counts[stop].trial(repaired(planted, {place}, context), f"{context}, repaired")


def paths_to(store: StoreReader | MessageStore, planted: Planted, place: Place, context: str) -> list[str]:
    """Return the ways of reading that return a message; check that each returns all others of its queue."""
    topic, queue, offset = place
    (phy_offset, _), found = planted.places[place], []
    others = set(range(ENDS[topic, queue])) - {offset}
    for columns in (["body"], ["tags", "storeTimestamp"], ["flag"], ["msgId", "properties"]):
        batches = store.read(topic, queue, 0, ENDS[topic, queue], ["queueOffset", *columns], faults=SkipFaults())
        rows = [row for batch in batches for row in batch.column(0).to_pylist()]
        assert set(rows) - {offset} == others, f"{context}: {columns}"
        found += [f"read {columns}"] if offset in rows else []
        try:
            if sum(batch.num_rows for batch in store.read(topic, queue, offset, offset + 1, columns)):
                found.append(f"read {columns}, alone")
        except CorruptRecordError as error:
            assert str(phy_offset) in str(error), error  # noqa: PT017
    with store.get_message(topic, queue, offset, 1) as result:
        found += ["get"] if [one for one in result.messages if one.queue_offset == offset] else []
    with store.get_message(topic, queue, 0, 32) as result:
        got = [one.queue_offset for one in result.messages if one.queue_offset != offset]
        assert len(got) > 1, context
        assert got == sorted(others)[: len(got)], context
    found += ["look"] if store.look_message_by_offset(phy_offset) is not None else []
    found += ["query"] if store.query_message(topic, key_of(place)) else []
    return found


@pytest.mark.parametrize("stop", STOPS)
def test_every_bit_of_a_record(images: Images, stop: str, tally: Callable[..., Tally]) -> None:
    """S09: every way of reading detects a change of any of them, and no other record is lost."""
    counts = tally("S09", f"{stop}, every bit")
    planted = fresh(images.take(stop))
    place = random.Random(SEED).choice([one for one, (_, size) in sorted(planted.places.items()) if size < 400])
    phy_offset, size = planted.places[place]
    file, position = planted.log_file(phy_offset)
    with StoreReader(planted.path) as reader:
        assert len(paths_to(reader, planted, place, "whole")) == 11
        for nth in sweep(8 * size, 71):
            byte, bit = divmod(nth - 1, 8)
            context = f"seed {SEED}, {place}, byte {byte} of {size}, bit {bit}"
            flip(file, position + byte, 1 << bit)
            found = paths_to(reader, planted, place, context)
            assert not found, f"{context}: {found}"
            flip(file, position + byte, 1 << bit)
            counts.trial(None, context)
        name = range(size - 20, size - 11)  # without it nothing in the record shows that it had a CRC
        for byte in name:
            flip(file, position + byte)
        found = paths_to(reader, planted, place, "the CRC's name damaged")
        assert not found, f"{place}, the CRC's name damaged: {found}"
        for byte in name:
            flip(file, position + byte)
        counts.trial(None, "the CRC's name damaged")
    with MessageStore.open(planted.path, IMAGE_CONFIG) as store:
        ends = range(size)
        for byte in (*ends[:: 29 if LEVEL == "sample" else 1], ends[-1]):
            flip(file, position + byte)
            found = paths_to(store, planted, place, f"store open, byte {byte} of {size}")
            assert not found, f"{place}, byte {byte} of {size}: {found}"
            flip(file, position + byte)
            counts.trial(None, context)
        assert len(paths_to(store, planted, place, "whole again")) == 11


def block_of(rng: random.Random, images: Images, planted: Planted) -> tuple[Path, int, bytes, str]:
    """Replace a block of the log; return its file, its offset, its old bytes, and the kind of the new ones."""
    end = max(at + size for at, size in planted.places.values())
    start = rng.randrange(0, end - BLOCK) // BLOCK * BLOCK
    file, position = planted.log_file(start)
    raw = file.read_bytes()
    kind = rng.choice(["zero", "another", "older", "noise"])
    other = rng.randrange(0, LOG_FILE, BLOCK)
    older = images.older.get(file.name, bytes(LOG_FILE))
    content = {
        "zero": bytes(BLOCK),
        "another": rng.choice(sorted(file.parent.iterdir())).read_bytes()[other : other + BLOCK],
        "older": older[position : position + BLOCK],
        "noise": rng.randbytes(BLOCK),
    }[kind]
    file.write_bytes(raw[:position] + content + raw[position + BLOCK :])
    return file, start, raw[position : position + BLOCK], kind


def test_a_block_of_other_bytes(images: Images, tally: Callable[..., Tally]) -> None:
    """S10: zeros, noise, a block of another position, an older state of the block."""
    counts = {stop: tally("S10", stop) for stop in STOPS}
    for seed in (*FOUND_BLOCKS, *seeds(60, 600)):
        rng = random.Random(seed)
        stop = STOPS[seed % 2]
        planted = fresh(images.take(stop))
        file, start, before, kind = block_of(rng, images, planted)
        context = f"seed {seed}, {stop}, {kind} at {start}"
        position = start % LOG_FILE
        now = file.read_bytes()[position : position + BLOCK]
        changed = [at for at in range(BLOCK) if before[at] != now[at]]
        touched = {one for at in changed for one in touching(planted, start + at, start + at + 1)}
        assert not judged(planted, touched, f"{context}, before recovery").lost, context
        found = findings_of(planted)
        for one in touched:
            at, size = planted.places[one]
            first = max(at % LOG_FILE, position)
            assert names(found, file, first, min(at % LOG_FILE + size, position + BLOCK)), f"{context}: {one}, {found}"
        used(planted, context)
        counts[stop].trial(judged(planted, touched, context), context, hit=bool(touched))
        counts[stop].trial(repaired(planted, touched, context), f"{context}, repaired", hit=bool(touched))


CASES = ["deleted", "renamed", "far", "emptied", "cut", "swapped", "copied", "foreign", "directory", "longer"]


@pytest.mark.parametrize(
    ("case", "which", "stop"), sampled(list(itertools.product(CASES, ["first", "middle", "last"], STOPS)), 5)
)
def test_bad_log_file(images: Images, case: str, which: str, stop: str, tally: Callable[..., Tally]) -> None:
    """S11: an open either works or fails and names the file; readable records stay readable, and no file is deleted."""
    counts = tally("S11", case)
    planted = fresh(images.take(stop))
    log = planted.path / "commitlog"
    files = sorted(one for one in log.iterdir() if any(one.read_bytes()))
    number = {"first": 0, "middle": len(files) // 2, "last": len(files) - 1}[which]
    assert len(files) >= 3
    file, other = files[number], files[(number + 1) % len(files)]
    base = int(file.name)
    raw = file.read_bytes()
    touched = touching(planted, base, base + LOG_FILE)
    match case:
        case "deleted":
            file.unlink()
        case "renamed":
            file.rename(log / f"{base + 4096:020d}")
        case "far":
            file.rename(log / f"{base + 100 * LOG_FILE:020d}")
        case "emptied":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(raw[: LOG_FILE // 2])
        case "longer":
            file.write_bytes(raw + b"x" * 100)
        case "swapped":
            content = other.read_bytes()
            other.write_bytes(raw)
            file.write_bytes(content)
            touched |= touching(planted, int(other.name), int(other.name) + LOG_FILE)
        case "copied":
            file.write_bytes(other.read_bytes())
        case "foreign":
            file.write_bytes(log_of_another_store(images))
        case "directory":
            file.unlink()
            file.mkdir()
    before = {one: one.read_bytes() for one in log.iterdir() if one.is_file()}
    context = f"{case} {which} {stop}"
    assert not judged(planted, touched, f"{context}, read").lost
    refused = ""
    try:
        MessageStore.open(planted.path, IMAGE_CONFIG).close()
    except (StoreVersionError, StoreAccessError) as error:
        refused = str(error)
    opened = not refused
    if refused:
        assert str(log) in refused, context
        assert {one: one.read_bytes() for one in log.iterdir() if one.is_file()} == before, context
    assert opened == can_be_opened(case, which, stop), context
    counts.trial(judged(planted, touched, context), context)
    if opened:
        used(planted, context)
        counts.trial(judged(planted, touched, context), context)
    repair_store(planted.path)
    counts.trial(judged(planted, set() if case == "longer" else touched, context), f"{context}, repaired")


def can_be_opened(case: str, which: str, stop: str) -> bool:
    """Return whether the open succeeds: first files may be missing, as after retention, or the end (with a report)."""
    if case in ("deleted", "emptied"):
        return which != "middle"
    return (which, stop) == ("last", "killed") and case in ("cut", "longer")


def log_of_another_store(images: Images) -> bytes:
    """Return the first log file of another store."""
    room = images.room / "other"
    if not room.exists():
        from tests.support.damage import make

        make(room)
    return min((room / "commitlog").iterdir()).read_bytes()
