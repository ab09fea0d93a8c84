"""Batch queues and LMQs that are lost or damaged: an open notices them, and rebuilds them from the log."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rocketflow_store import MessageStore, StoreReader
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.clock import ManualClock
from tests.support.side_queue_damage import (
    BATCH,
    HARM,
    LIGHT,
    files_of,
    lengthen,
    lose,
    lose_first,
    lose_last,
    zero_middle,
)
from tests.support.side_queues import CONFIG, SIZES, SideStore, make, served
from tests.support.trials import sampled


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SideStore]:
    path = tmp_path_factory.mktemp("side") / "s"
    return path, make(path)


def contents(path: Path) -> dict[str, bytes]:
    return {
        str(one.relative_to(path)): one.read_bytes()
        for directory in ("consumequeue", "batchconsumequeue")
        for one in sorted((path / directory).rglob("*"))
        if one.is_file()
    }


@pytest.mark.parametrize(
    ("harm", "queue", "abort"), sampled(list(itertools.product(HARM, [BATCH, LIGHT], [False, True])), 3)
)
def test_damaged_side_queue_is_rebuilt(
    whole: tuple[Path, SideStore],
    tmp_path: Path,
    queue: str,
    harm: Callable[[Path], None],
    abort: bool,
) -> None:
    path, made = tmp_path / "s", SideStore(dict(whole[1].bodies), dict(whole[1].ends))
    shutil.copytree(whole[0], path)
    before = contents(path)
    harm(path / queue)
    if abort:
        (path / "abort").touch()
    with MessageStore.open(path, SIZES if abort else CONFIG) as store:  # also without enableMultiDispatch
        if not (abort and harm is lengthen):  # bytes after the newest file's size never belonged to it
            assert "/".join(queue.split("/")[1:]) in store.recovery.healed
        assert served(store) == made.bodies
    assert contents(path) == before, "byte for byte"
    assert any((path / "quarantine").rglob("report.jsonl"))
    with MessageStore.open(path, CONFIG) as store:
        assert store.recovery.healed == ()
        made.put(store, 120, 140)
        assert served(store) == made.bodies
    with StoreReader(path) as reader:
        assert served(reader) == made.bodies


def test_topic_without_its_attribute_stays_a_batch_topic(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    path, made = tmp_path / "s", whole[1]
    shutil.copytree(whole[0], path)
    lose(path / BATCH)
    for one in (path / "config").iterdir():
        one.unlink()
    with MessageStore.open(path, CONFIG) as store:
        assert served(store) == made.bodies
    assert not (path / "consumequeue" / "batches").exists()


@pytest.mark.parametrize(
    ("harm", "queue", "abort"),
    sampled(list(itertools.product([lose, lose_first, lose_last, zero_middle], [BATCH, LIGHT], [False, True])), 3),
)
def test_lost_side_queue_without_a_stop_record_is_rebuilt(
    whole: tuple[Path, SideStore], tmp_path: Path, queue: str, harm: Callable[[Path], None], abort: bool
) -> None:
    """A store of another writer: the records at the begin of each log file show what is missing."""
    path, made = tmp_path / "s", whole[1]
    shutil.copytree(whole[0], path)
    shutil.rmtree(path / "rocketflow")
    harm(path / queue)
    topics = path / "config" / "topics.json"
    assert topics.exists()
    if abort:
        (path / "abort").touch()
    with MessageStore.open(path, CONFIG) as store:
        if not (abort and harm in (lose, zero_middle)):  # there the whole log is dispatched anyway
            assert store.recovery.healed
        assert served(store) == made.bodies


@pytest.mark.parametrize("queue", [BATCH, LIGHT])
def test_lost_end_of_the_log_keeps_the_ends_of_side_queues(
    whole: tuple[Path, SideStore], tmp_path: Path, queue: str
) -> None:
    """No queue offset is assigned twice, though messages of both kinds are lost."""
    path, made = tmp_path / "s", SideStore(dict(whole[1].bodies), dict(whole[1].ends))
    shutil.copytree(whole[0], path)
    files_of(path / "commitlog")[-1].unlink()
    if queue == LIGHT:
        lose(path / LIGHT)
        lose(path / BATCH)
    with MessageStore.open(path, CONFIG) as store:
        there = served(store)
        assert {place: made.bodies[place] for place in there} == there
        assert len(there) < len(made.bodies)
        for (topic, queue_id), end in made.ends.items():
            assert store.max_offset(topic, queue_id) == end
        made.bodies = there
        made.put(store, 120, 150)
        assert served(store) == made.bodies
    with MessageStore.open(path, CONFIG) as store:
        assert served(store) == made.bodies


def test_store_with_only_batches_knows_its_newest_time(tmp_path: Path) -> None:
    """B4: later messages are not older, though the clock was set back."""
    clock = ManualClock(1_000_000)
    path, config = tmp_path / "s", replace(SIZES, clock=clock)
    with MessageStore.open(path, config) as store:
        store.create_topic("batches", 1, queue_type="BatchCQ")
        SideStore({}, {}).put(store, 1, 2)
    clock.set(5)
    with MessageStore.open(path, config) as store:
        assert store.recovery.scanned_from == store.max_phy_offset, "nothing is left to read"
        made = SideStore({}, {})
        made.put(store, 1, 2)
        newest = store.get_message("batches", 0, store.max_offset("batches", 0) - 1).messages[-1]
        assert newest.store_timestamp >= 1_000_000


def test_positions_after_the_end_of_a_batch_queue_are_moved_back(whole: tuple[Path, SideStore], tmp_path: Path) -> None:
    """C2, for queues of this kind: other positions stay."""
    path, ends = tmp_path / "s", whole[1].ends
    shutil.copytree(whole[0], path)
    with MessageStore.open(path, CONFIG) as store:
        offsets = store.config_files.consumer_offsets
        offsets.commit("g", "batches", {0: 3, 1: ends["batches", 1] + 7})
    with MessageStore.open(path, CONFIG) as store:
        table = store.config_files.consumer_offsets.offsets("g", "batches")
        assert table == {0: 3, 1: ends["batches", 1]}


def test_healing_accepts_another_writers_records_without_crc(tmp_path: Path) -> None:
    """Another writer, whose records have no CRC, wrote after RocketFlow's stop; then a queue was lost."""
    path = tmp_path / "s"
    made = make(path, count=40)
    stop = path / "rocketflow" / "stop"
    saved = stop.read_bytes()
    with MessageStore.open(path, replace(CONFIG, enabled_append_prop_crc=False)) as store:
        made.put(store, 40, 60)
    stop.write_bytes(saved)
    lose(path / BATCH)
    for _ in range(2):
        with MessageStore.open(path, CONFIG) as store:
            assert served(store) == made.bodies
    assert verify_store(path).findings == []
    with StoreReader(path) as reader:
        assert served(reader) == made.bodies
