"""Many damaged records close to each other: none hides another, whatever the kinds of damage."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from rocketflow_store import Message, MessageStore, SkipFaults, StoreConfig, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.rebuild.rebuild import rebuild_store
from tests.support.damage import flip
from tests.support.trials import some

CONFIG = StoreConfig(mapped_file_size_commit_log=1 << 18, mapped_file_size_consume_queue=20_000)
COUNT = 600
FIELDS = {"size": 1, "magic": 6, "queue offset": 27, "place": 34, "system flag": 39, "store time": 63, "body": 90}
"""A byte of each field of a record."""
SEEDS = range(20261122, 20261122 + some(6))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "s"
    with MessageStore.open(path, CONFIG) as store:
        for number in range(COUNT):
            store.put_message(Message("t", b"message %d" % number, queue_id=0, keys=f"k{number}"))
    return path


def harmed(whole: Path, path: Path, seed: int, kinds: tuple[str, ...]) -> set[int]:
    """Copy a store and damage one record in ten; return their queue offsets.

    The last record is not damaged: it could not be distinguished from a torn tail.
    """
    shutil.copytree(whole, path)
    rng = random.Random(seed)
    with StoreReader(whole, CONFIG) as reader:
        places = [reader.get_message("t", 0, number, 1).messages[0].phy_offset for number in range(COUNT)]
    chosen = set(rng.sample(range(COUNT - 1), COUNT // 10))
    for number in chosen:
        flip(path / "commitlog" / f"{0:020d}", places[number] + FIELDS[rng.choice(kinds)])
    return chosen


def left(path: Path) -> list[int]:
    """Return the numbers of the messages that are served."""
    with StoreReader(path, CONFIG) as reader:
        batches = reader.read("t", 0, 0, COUNT, ["body"], faults=SkipFaults())
        return [int(body.removeprefix(b"message ")) for batch in batches for body in batch["body"].to_pylist()]


@pytest.mark.parametrize("kinds", [tuple(FIELDS), ("body", "store time"), ("body", "place")], ids=" ".join)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_damaged_record_is_found_and_no_other_is_lost(
    whole: Path, tmp_path: Path, seed: int, kinds: tuple[str, ...]
) -> None:
    path = tmp_path / "s"
    chosen = harmed(whole, path, seed, kinds)
    wanted = [number for number in range(COUNT) if number not in chosen]
    assert left(path) == wanted

    found = verify_store(path, CONFIG)
    assert (found.records, found.lost_records) == (len(wanted), len(chosen))

    for lost in ("consumequeue", "index"):
        shutil.rmtree(path / lost)
    opened = tmp_path / "opened"
    shutil.copytree(path, opened)
    rebuilt = rebuild_store(path, config=CONFIG)
    with MessageStore.open(opened, CONFIG) as store:
        assert store.recovery.dispatched == rebuilt.records == len(wanted)
        assert [(one.offset, one.offset + one.length) for one in store.recovery.quarantined] == [
            (one["physicalOffset"], one["physicalOffset"] + one["length"]) for one in rebuilt.damaged
        ]
    for one in (path, opened):
        assert left(one) == wanted
        assert {finding.kind for finding in verify_store(one, CONFIG).findings} == {"record"}
        with StoreReader(one, CONFIG) as reader:
            assert len(reader.query_message("t", f"k{wanted[3]}")) == 1
            assert all(not reader.query_message("t", f"k{number}") for number in chosen)
