"""Row S28: complete records in a message's body, at their true physical offsets, never become messages."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.damage import bodies_of, flip
from tests.support.forged_store import CONFIG, FILE_SIZE, made
from tests.support.forging import HEAD
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, SEED, seeds

LENGTHS = {"size": (0, 4), "magic": (4, 4), "body CRC": (8, 4), "place": (28, 8), "body length": (84, 4)}
"""Fields of the outer record that define its length or its validity: (offset, bytes)."""
AFTERWARDS = ("repair", "rebuild", "open")
WHERE = ("middle", "file end", "last")


def next_record(path: Path, phy_offset: int) -> int:
    """Return the end of the record at a physical offset."""
    with StoreReader(path, CONFIG) as reader:
        message = reader.look_message_by_offset(phy_offset)
    assert message is not None
    return phy_offset + message.store_size


def served(path: Path) -> dict[tuple[str, int, int], bytes]:
    with StoreReader(path, CONFIG) as reader:
        assert "secret" not in reader.topics()
        assert reader.query_message("secret", "secret") == []
        return bodies_of(reader)


def go_on(path: Path, afterwards: str) -> int:
    """Build the missing queues and index from the log; return the exit code."""
    if afterwards == "repair":
        shutil.rmtree(path / "consumequeue" / "t" / "0")
        return repair_store(path, CONFIG).exit_code
    for name in ("consumequeue", "index"):
        shutil.rmtree(path / name)
    if afterwards == "rebuild":
        return rebuild_store(path, RebuildRequest(force=True), CONFIG).exit_code
    with MessageStore.open(path, CONFIG) as store:
        return 3 if store.recovery.quarantined else 0


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], tuple[Path, int, int, dict]]:
    found = {}
    for where in WHERE:
        for crc in (True, False):
            path = tmp_path_factory.mktemp("forged") / "s"
            found[where, crc] = (path, *made(path, where, crc=crc), served(path))
    return found


@pytest.mark.slow
def test_a_flipped_bit_of_the_record_around_forged_ones(
    stores: dict, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Serve no forged record, only messages that were put, and all other records, whichever field is damaged."""
    counts = {crc: tally("S28", "with record CRC" if crc else "without") for crc in (True, False)}
    for seed in seeds(400, 4000):
        rng, path = random.Random(seed), tmp_path / f"{seed}"
        where, afterwards, crc = rng.choice(WHERE), AFTERWARDS[seed % 3], bool(seed % 2)
        origin, begin, size, wanted = stores[where, crc]
        fields = {**LENGTHS, "topic length": (HEAD + size, 1), "properties length": (HEAD + size + 2, 2)}
        name = rng.choice(sorted(fields))
        at, width = fields[name]
        byte, bit = at + rng.randrange(width), rng.randrange(8)
        context = f"seed {seed}, {where}, {afterwards}, record CRC {crc}, {name}, byte {byte}, bit {bit}"
        shutil.copytree(origin, path)
        file = path / "commitlog" / f"{begin - begin % FILE_SIZE:020d}"
        flip(file, begin % FILE_SIZE + byte, 1 << bit)
        verify_store(path, CONFIG)
        code = go_on(path, afterwards)
        found = served(path)
        others = {place: body for place, body in wanted.items() if place != ("t", 1, 0)}
        known = {place: body for place, body in found.items() if place != ("t", 1, 0)}
        assert known.items() <= others.items(), context
        if known != others:  # two lengths fit the damage, and the log ends after either: nothing proves what follows
            assert (crc, code, where) == (False, 3, "file end"), context
            assert afterwards != "repair", context  # the queues prove it
            assert name in ("size", "topic length", "properties length"), context
        assert found.get(("t", 1, 0)) in (None, wanted["t", 1, 0]), context
        assert code == 3 or ("t", 1, 0) in found, context
        counts[crc].trial(None, context)
        shutil.rmtree(path)


@pytest.mark.slow
def test_each_bit_of_the_lengths_of_the_record_around_forged_ones(
    tmp_path: Path, stores: dict, tally: Callable[..., Tally]
) -> None:
    """Put forged records wherever a flipped bit of the size leads; damage also the records around the outer one."""
    counts = tally("S28", "each bit of the lengths")
    _, begin, size, wanted = stores["middle", False]
    whole = next_record(stores["middle", False][0], begin) - begin
    origin = tmp_path / "aligned"
    assert made(origin, "middle", crc=False, aligned=whole) == (begin, size)
    wanted = served(origin)
    fields = {"size": (0, 4), "body length": (84, 4), "topic": (HEAD + size, 1), "properties": (HEAD + size + 2, 2)}
    bits = [(name, bit) for name, (_, width) in fields.items() for bit in range(8 * width)]
    step = 1 if FULL else 4 if LEVEL == "fast" else 24
    for number, (name, bit) in enumerate(bits[SEED % step :: step]):
        at, width = fields[name]
        path, afterwards, neighbour = tmp_path / "s", AFTERWARDS[(number + SEED) % 3], number % 4 == 3
        context = f"{name} bit {bit}, {afterwards}, the record after it damaged: {neighbour}"
        shutil.copytree(origin, path)
        file = path / "commitlog" / f"{begin - begin % FILE_SIZE:020d}"
        flip(file, begin % FILE_SIZE + at + width - 1 - bit // 8, 1 << bit % 8)
        lost = {("t", 1, 0)}
        if neighbour:
            flip(file, begin % FILE_SIZE + whole + HEAD)
            lost.add(("t", 0, 30))
        code, found = go_on(path, afterwards), served(path)
        assert found.items() <= wanted.items(), context
        assert code == 3 or found == wanted, context
        if not neighbour:
            assert wanted.keys() - found.keys() <= lost, context
        counts.trial(None, context)
        shutil.rmtree(path)


@pytest.mark.slow
def test_zeros_over_the_head_of_the_record_around_forged_ones(
    stores: dict, tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    """Quarantine what no other data proves, and serve no forged record, when the outer record's fields are zeros."""
    counts = tally("S28", "head zeroed")
    for seed in seeds(60, 400):
        rng, path = random.Random(seed), tmp_path / f"{seed}"
        where, afterwards, crc = rng.choice(WHERE[:2]), AFTERWARDS[seed % 3], bool(seed % 2)
        origin, begin, _, wanted = stores[where, crc]
        context = f"seed {seed}, {where}, {afterwards}, record CRC {crc}"
        shutil.copytree(origin, path)
        with (path / "commitlog" / f"{begin - begin % FILE_SIZE:020d}").open("r+b") as file:
            file.seek(begin % FILE_SIZE)
            file.write(bytes(rng.randrange(HEAD, HEAD + 600)))
        verify_store(path, CONFIG)
        code = go_on(path, afterwards)
        found = served(path)
        assert code == 3, context
        assert found.items() <= wanted.items(), context
        if crc:
            assert wanted.items() - found.items() == {(("t", 1, 0), wanted["t", 1, 0])}, context
        counts.trial(None, context)
        shutil.rmtree(path)
