"""Row S29: one flipped bit of a topic, queueId or queueOffset, at every position in a queue of every length."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, SkipFaults, StoreReader
from rocketflow_store.fsck.repair import repair_store
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from rocketflow_store.rebuild.result import RebuildRequest
from tests.support.queue_gaps import CONFIG, QUEUES, Place, Written, hit, made, put
from tests.support.results import Tally
from tests.support.trials import FULL, LEVEL, seeds

AFTERWARDS = ("rebuild", "rebuild without queues", "repair", "open")


def served(path: Path, keys: tuple[tuple[str, int], ...] = QUEUES) -> tuple[dict[Place, bytes], dict]:
    """Return the messages that a reader gets, and the bounds of the queues."""
    found: dict[Place, bytes] = {}
    with StoreReader(path, CONFIG) as reader:
        bounds = {key: reader.bounds(*key) for key in keys}
        for (topic, queue_id), (low, high) in bounds.items():
            for batch in reader.read(topic, queue_id, low, high, ["queueOffset", "body"], faults=SkipFaults()):
                for row in batch.to_pylist():
                    found[topic, queue_id, row["queueOffset"]] = row["body"]
    return found, bounds


def go_on(path: Path, afterwards: str) -> int:
    """Build the queues from the log; return the exit code."""
    if afterwards != "rebuild":
        shutil.rmtree(path / "consumequeue")
    if afterwards == "repair":
        return repair_store(path, CONFIG).exit_code
    if afterwards == "open":
        MessageStore.open(path, CONFIG).close()
        return verify_store(path, CONFIG).exit_code
    planned = rebuild_store(path, RebuildRequest(dry_run=True), CONFIG)
    result = rebuild_store(path, config=CONFIG)
    assert (planned.exit_code, planned.damaged) == (result.exit_code, result.damaged)
    return result.exit_code


def check(path: Path, written: Written, place: Place, claimed: Place, context: str) -> None:
    """Check that all other messages are served at their positions, and that bounds are those of the log."""
    found, bounds = served(path)
    for one, body in written.bodies.items():
        if one == place:
            assert one not in found, f"{context}: {one} is served"
        elif one != claimed:
            assert found.get(one) == body, f"{context}: {one} is not served"
        else:  # two records claim it: nothing but the right one is served
            assert found.get(one, body) == body, f"{context}: {one} is served as another"
    lengths = {key: sum(one[:2] == key for one in written.bodies) for key in QUEUES}
    for key, (low, high) in bounds.items():
        assert low == 0, f"{context}: {key} begins at {low}"
        assert high == max(lengths[key], claimed[2] + 1 if claimed[:2] == key and high > lengths[key] else 0), context
    assert found.keys() <= written.bodies.keys() | {claimed}, context


def trial(written: Written, path: Path, place: Place, field: str, bit: int, afterwards: str, context: str) -> None:
    shutil.copytree(written.path, path)
    claimed = hit(written, path, place, field, bit)
    now = Written(path, written.places.copy(), written.bodies.copy())
    assert go_on(path, afterwards) == 3, context
    check(path, now, place, claimed, context)
    first = verify_store(path, CONFIG)
    assert first.exit_code == 3, context
    assert verify_store(path, CONFIG).findings == first.findings, context
    shutil.rmtree(path)


BITS = {"queueId": 32, "queueOffset": 64, "topic": 32}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Written]:
    known: dict[int, Written] = {}

    def of(length: int) -> Written:
        if length not in known:
            known[length] = made(tmp_path_factory.mktemp("gaps") / "s", length)
        return known[length]

    return of


@pytest.mark.slow
def test_any_bit_at_any_place_of_a_queue_of_any_length(
    stores: Callable[[int], Written], tmp_path: Path, tally: Callable[..., Tally]
) -> None:
    counts = {one: tally("S29", one) for one in AFTERWARDS}
    for seed in seeds(120, 3000, least=6):
        rng = random.Random(seed)
        written = stores(rng.choice([1, 2, 3, 20, 80]) if LEVEL == "sample" else rng.randint(1, 120))
        length = len(written.bodies) // len(QUEUES)
        place = (*rng.choice(QUEUES), rng.choice([0, length - 1, rng.randrange(length), length // 2]))
        field, afterwards = rng.choice(sorted(BITS)), AFTERWARDS[seed % len(AFTERWARDS)]
        bit = rng.choice([rng.randrange(8), rng.randrange(BITS[field])])
        context = f"seed {seed}, length {length}, {place}, {field} bit {bit}, {afterwards}"
        trial(written, tmp_path / f"{seed}", place, field, bit, afterwards, context)
        counts[afterwards].trial(None, context)


@pytest.mark.slow
@pytest.mark.parametrize("field", BITS)
def test_each_bit_of_a_field(
    stores: Callable[[int], Written], tmp_path: Path, field: str, tally: Callable[..., Tally]
) -> None:
    counts = tally("S29", f"each bit of {field}")
    written, step = stores(80), 1 if FULL else 4 if LEVEL == "fast" else 24
    for bit in range(seeds(1, 1)[0] % step, BITS[field], step):
        context = f"bit {bit} of {field}"
        trial(written, tmp_path / f"{bit}", ("orders", 0, 37), field, bit, "rebuild without queues", context)
        counts.trial(None, context)


@pytest.mark.parametrize("afterwards", AFTERWARDS)
def test_queue_whose_only_message_claims_another_place_keeps_its_end(tmp_path: Path, afterwards: str) -> None:
    written = made(tmp_path / "s", 1)
    place = ("orders", 0, 0)
    hit(written, written.path, place, "queueOffset", 1)
    assert go_on(written.path, afterwards) == 3
    _, bounds = served(written.path)
    assert bounds == dict.fromkeys(QUEUES, (0, 1))
    with MessageStore.open(written.path, CONFIG) as store:
        assert store.put_message(Message("orders", b"next", queue_id=0)).queue_offset == 1


@pytest.mark.slow
def test_a_queue_grows_after_a_gap(tmp_path: Path, tally: Callable[..., Tally]) -> None:
    """Bounds are the same at every length of the queue, and messages before and after the gap stay readable."""
    counts = tally("S29", "growth")
    for seed in seeds(4, 40):
        rng, path = random.Random(seed), tmp_path / f"{seed}"
        length = 23 + rng.randrange(60)
        written = made(path, length)
        place = (*rng.choice(QUEUES), rng.randrange(length))
        field = rng.choice(sorted(BITS))
        bit = rng.randrange(4)
        claimed = hit(written, path, place, field, bit)
        afterwards = rng.choice(AFTERWARDS)
        context = f"seed {seed}, length {length}, {place}, {field} bit {bit}, {afterwards}"
        assert go_on(path, afterwards) == 3, context
        with MessageStore.open(path, CONFIG) as store, StoreReader(path, CONFIG) as reader:
            begins = {key: reader.bounds(*key)[1] for key in QUEUES}
            for number in range(120):
                put(store, length + number, length + number + 1, written)
                for key in QUEUES:
                    found = reader.bounds(*key)
                    assert found == (0, begins[key] + number + 1), f"{context}, {key} has {found} after {number + 1}"
                counts.trial(None, context)
        found, _ = served(path)
        for one, body in written.bodies.items():
            assert one in (place, claimed) or found.get(one) == body, f"{context}: {one}"
        assert verify_store(path, CONFIG).exit_code == 3, context
        shutil.rmtree(path)
