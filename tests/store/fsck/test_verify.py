"""Every kind of damage is found, with its file and place; verify changes nothing. Rows S09-S14 of the fault matrix."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocketflow_store import Message, MessageStore, StoreReader
from rocketflow_store.fsck.findings import RangeSet
from rocketflow_store.fsck.verify import verify_store
from rocketflow_store.model.status import GetMessageStatus
from tests.support.damage import CONFIG, Planted, copied, digests, flip, make
from tests.support.golden import CLOSED, config_of
from tests.support.trials import sampled, some

SEED = 20261121


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return make(tmp_path_factory.mktemp("whole") / "s")


@pytest.fixture
def planted(whole: Planted, tmp_path: Path) -> Planted:
    return copied(whole, tmp_path / "s")


def places_found(path: Path) -> list[tuple[str, str, int, int]]:
    return [(one.kind, one.file, one.offset, one.length) for one in verify_store(path).findings]


@pytest.mark.parametrize("name", CLOSED)
def test_stores_that_apache_wrote_are_clean(name: str, golden_store: Callable[..., Path]) -> None:
    found = verify_store(golden_store(name), config_of(name))
    assert found.findings == []
    assert found.records > 0
    assert found.without_record_crc == (0 if name == "propcrc-53" else found.records)


@pytest.mark.parametrize("with_config", [True, False])
def test_missing_queue_of_an_apache_store_is_found(
    golden_store: Callable[..., Path], tmp_path: Path, with_config: bool
) -> None:
    """Only topics.json shows that a topic was deleted."""
    path = tmp_path / "s"
    shutil.copytree(golden_store("basic-53"), path)
    with StoreReader(path, config_of("basic-53")) as reader:
        topic, queue = next(
            (topic, queue)
            for topic in reader.topics()
            for queue in reader.queues(topic)
            if reader.bounds(topic, queue)[1]
        )
        count = reader.bounds(topic, queue)[1]
    missing = path / "consumequeue" / topic / str(queue)
    shutil.rmtree(missing)
    if not with_config:
        shutil.rmtree(path / "config")
    findings = verify_store(path, config_of("basic-53")).findings
    assert [(one.kind, Path(one.file).parent) for one in findings] == [("missing-unit", missing)]
    assert findings[0].detail == f"queue offset 0 to {count - 1}"


def test_undamaged_store_is_clean_and_verify_changes_nothing(whole: Planted) -> None:
    before = digests(whole.path)
    progress: list[tuple[int, int]] = []
    found = verify_store(whole.path, progress=lambda done, total: progress.append((done, total)))
    assert (found.findings, found.records, found.exit_code) == ([], len(whole.places), 0)
    assert digests(whole.path) == before
    assert progress
    assert progress[-1][0] <= progress[-1][1]


@pytest.mark.parametrize("position", [*range(4), *range(4, 12), *range(12, 16), 20, 27, 28, 35, 84, 87, 88, 95])
def test_flipped_byte_of_a_record_is_found(planted: Planted, position: int) -> None:
    """Every field that identifies the record, its lengths, and the body."""
    place = ("orders", 1, 40)
    phy_offset, size = planted.places[place]
    file, start = planted.log_file(phy_offset)
    flip(file, start + position)
    found = verify_store(planted.path)
    assert ("record", str(file), start, size) in [(f.kind, f.file, f.offset, f.length) for f in found.findings]
    assert (found.lost_records, found.exit_code) == (1, 3)
    assert {one.kind for one in found.findings} == {"record"}
    assert place not in planted.served()
    assert planted.served().items() <= planted.bodies.items()


def test_flipped_byte_anywhere_in_a_record_with_crc_is_found(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", replace(CONFIG, enabled_append_prop_crc=True)) as store:
        offsets = [store.put_message(Message("t", b"b" * 20, keys=["k"], queue_id=0)).physical_offset for _ in range(9)]
    file = tmp_path / "s" / "commitlog" / f"{0:020d}"
    raw = file.read_bytes()
    assert verify_store(tmp_path / "s").without_record_crc == 0
    digits = range(offsets[5] - 11, offsets[5] - 1)
    for position in (*sampled(range(offsets[4], offsets[5] - 20), 5), *digits):
        flip(file, position, 1)
        found = verify_store(tmp_path / "s")
        assert [(f.kind, f.offset) for f in found.findings] == [("record", offsets[4])], position - offsets[4]
        file.write_bytes(raw)


def test_random_bytes_of_records_are_found(whole: Planted, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for trial in range(some(25)):
        planted = copied(whole, tmp_path / str(trial))
        place = rng.choice(sorted(planted.places))
        phy_offset, _ = planted.places[place]
        file, start = planted.log_file(phy_offset)
        at = rng.randrange(88, 88 + len(planted.bodies[place]))
        flip(file, start + at, 1 << rng.randrange(8))
        found = verify_store(planted.path)
        assert [(f.kind, f.file, f.offset) for f in found.findings] == [("record", str(file), start)], (SEED, trial)
        assert found.lost_records == 1
        shutil.rmtree(planted.path)


@pytest.mark.parametrize("kind", ["zeroed", "another block", "noise"])
def test_damaged_block_of_the_log_is_found(planted: Planted, kind: str) -> None:
    first, second = sorted((planted.path / "commitlog").iterdir())[:2]
    data = {
        "zeroed": bytes(4096),
        "another block": second.read_bytes()[:4096],
        "noise": random.Random(1).randbytes(4096),
    }
    with first.open("r+b") as opened:
        opened.seek(4096)
        opened.write(data[kind])
    found = verify_store(planted.path)
    touched = [place for place, (offset, size) in planted.places.items() if offset < 8192 and offset + size > 4096]
    records = [one for one in found.findings if one.kind == "record"]
    assert sum(one.length for one in records) >= 4096 - 500
    assert {one.file for one in records} == {str(first)}
    assert len(touched) - 1 <= found.lost_records <= len(touched)
    served = planted.served()
    assert served == {place: body for place, body in planted.bodies.items() if place not in touched}


def test_random_bytes_of_queues_and_index_are_found(whole: Planted, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for trial in range(some(40)):
        planted = copied(whole, tmp_path / str(trial))
        if trial % 2:
            topic, queue, offset = rng.choice(sorted(planted.places))
            file, start = planted.queue_file(topic, queue, offset)
            position = start + rng.randrange(20)
            where = start
        else:
            file = rng.choice(sorted((planted.path / "index").iterdir())[:-1])  # full ones: all their bytes are used
            entry = rng.randrange(1, CONFIG.max_index_num)
            where = 40 + 4 * CONFIG.max_hash_slot_num + 20 * entry
            position = where + rng.randrange(20)
        flip(file, position, 1 << rng.randrange(8))
        found = verify_store(planted.path)
        assert found.exit_code == 1, (SEED, trial)
        assert any((f.file, f.offset) == (str(file), where) for f in found.findings), (SEED, trial, found.findings)
        assert planted.served().items() <= planted.bodies.items()
        shutil.rmtree(planted.path)


@pytest.mark.parametrize("position", [7, 15, 23, 31, 35, 39, 41, 80])
def test_damaged_head_and_slots_of_an_index_file_are_found(planted: Planted, position: int) -> None:
    file = min((planted.path / "index").iterdir())
    flip(file, position)
    found = verify_store(planted.path)
    assert str(file) in {one.file for one in found.findings}
    assert {one.kind for one in found.findings} <= {"index-header", "index-chain", "index-entry", "missing-entry"}


@pytest.mark.parametrize("position", [0, 7, 8, 15, 16, 24, 39, 40, 4095])
def test_damaged_bytes_of_the_checkpoint_are_found(planted: Planted, position: int) -> None:
    flip(planted.path / "checkpoint", position, 0x40)
    kinds = {one.kind for one in verify_store(planted.path).findings}
    # a checkpoint may have a time before the newest one
    assert kinds == {"checkpoint"} or position in (7, 15, 39)


@pytest.mark.parametrize(
    ("name", "damage", "kind"),
    [
        ("checkpoint", "missing", "checkpoint"),
        ("checkpoint", "empty", "checkpoint"),
        ("checkpoint", "cut", "checkpoint"),
        ("config/topics.json", "empty", "config"),
        ("config/topics.json", "noise", "config"),
        ("config/topics.json", "missing", "config"),
        ("config/consumerOffset.json", "cut", "config"),
        ("config/consumerOffset.json", "noise", "config"),
        ("rocketflow/store.meta", "cut", "meta"),
        ("rocketflow/store.meta", "empty", "meta"),
        ("consumequeue/orders/0/00000000000000000400", "missing", "missing-unit"),
        ("consumequeue/orders/0/00000000000000000400", "empty", "file-size"),
        ("consumequeue/orders/0/00000000000000000400", "cut", "file-size"),
        ("consumequeue/orders/0/00000000000000000400", "noise", "wrong-unit"),
        ("commitlog/00000000000000016384", "missing", "missing-file"),
        ("commitlog/00000000000000016384", "empty", "missing-file"),
        ("commitlog/00000000000000016384", "cut", "file-size"),
        ("commitlog/00000000000000016384", "noise", "record"),
    ],
)
def test_missing_and_truncated_files_are_found(planted: Planted, name: str, damage: str, kind: str) -> None:
    file = planted.path / name
    raw = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {"empty": b"", "cut": raw[: len(raw) // 2], "noise": random.Random(2).randbytes(len(raw))}[damage]
        )
    found = verify_store(planted.path)
    assert any(one.kind == kind and name in one.file for one in found.findings), found.findings
    assert found.exit_code == (3 if "commitlog" in name else 1)


def test_files_that_do_not_belong_are_found(planted: Planted) -> None:
    strange = [
        planted.path / "commitlog" / "00000000000000000007",
        planted.path / "commitlog" / "notes.txt",
        planted.path / "consumequeue" / "orders" / "0" / "copy",
        planted.path / "index" / "x",
    ]
    for one in strange:
        one.write_bytes(b"?" * (1 << 14))
    found = verify_store(planted.path)
    assert {one.file for one in found.findings if one.kind == "foreign-file"} == {str(one) for one in strange}


def test_missing_queue_and_swapped_queues_are_found(planted: Planted) -> None:
    queues = planted.path / "consumequeue"
    shutil.rmtree(queues / "orders" / "0")
    (queues / "bills" / "0").rename(queues / "bills" / "tmp")
    (queues / "bills" / "1").rename(queues / "bills" / "0")
    (queues / "bills" / "tmp").rename(queues / "bills" / "1")
    found = verify_store(planted.path)
    assert found.queues == {("orders", 0), ("bills", 0), ("bills", 1)}
    assert {one.kind for one in found.findings} <= {"missing-unit", "wrong-unit"}
    assert found.exit_code == 1
    assert planted.served().items() <= planted.bodies.items()


def test_missing_queue_file_between_others_is_found(planted: Planted) -> None:
    file = planted.queue_file("orders", 1, 20)[0]
    file.unlink()
    found = verify_store(planted.path)
    assert [(one.kind, one.file, one.length) for one in found.findings] == [("missing-unit", str(file), 400)]
    with StoreReader(planted.path) as reader:
        within, after = reader.get_message("orders", 1, 25), reader.get_message("orders", 1, 40)
    assert (within.status, within.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 40)
    assert after.status is GetMessageStatus.FOUND
    left = {place for place in planted.bodies if place[:2] != ("orders", 1) or not 20 <= place[2] < 40}
    assert set(planted.served()) == left


def test_missing_index_file_is_found(planted: Planted) -> None:
    files = sorted((planted.path / "index").iterdir())
    files[1].unlink()
    kinds = {one.kind for one in verify_store(planted.path).findings}
    assert kinds == {"missing-entry"}
    for one in files[:1] + files[2:]:
        one.unlink()
    (one,) = verify_store(planted.path).findings
    assert (one.kind, one.file) == ("missing-entry", str(planted.path / "index"))


def test_position_after_its_queue_is_found(planted: Planted) -> None:
    from rocketflow_store.metadata.config_files import ConfigFiles

    ConfigFiles(planted.path / "config").consumer_offsets.commit("readers", "orders", {0: 99999})
    (one,) = verify_store(planted.path).findings
    assert one.kind == "offset"
    assert "orders@readers queue 0 is at 99999, its end is 75" in one.detail


def test_damaged_end_mark_of_a_file_is_found(planted: Planted) -> None:
    first = min((planted.path / "commitlog").iterdir())
    end = max(offset + size for offset, size in planted.places.values() if offset < 1 << 14)
    flip(first, end + 5)
    found = verify_store(planted.path)
    assert [(f.kind, f.file, f.offset) for f in found.findings] == [("blank", str(first), end)]


def test_damaged_last_record_of_a_closed_store_is_found(planted: Planted) -> None:
    place, (phy_offset, size) = max(planted.places.items(), key=lambda one: one[1])
    file, start = planted.log_file(phy_offset)
    flip(file, start + 4)
    found = verify_store(planted.path)
    assert [(f.kind, f.offset, f.length) for f in found.findings if f.kind == "record"] == [("record", start, size)]
    assert found.exit_code == 3
    assert place not in planted.served()


def test_bytes_after_the_end_are_found(planted: Planted) -> None:
    end = max(offset + size for offset, size in planted.places.values())
    file, start = planted.log_file(end)
    with file.open("r+b") as opened:
        opened.seek(start)
        opened.write(b"half a record")
    found = verify_store(planted.path)
    assert [(f.kind, f.offset, f.length) for f in found.findings] == [("torn-tail", start, 13)]
    assert found.exit_code == 1


def test_verify_beside_a_live_writer_is_clean(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "s", CONFIG) as store:
        for number in range(200):
            store.put_message(Message("t", b"x" * number, keys=[f"k{number}"], queue_id=0))
        found = verify_store(tmp_path / "s")
        assert (found.findings, found.records) == ([], 200)
        place = store.get_message("t", 0, 50).messages[0].phy_offset
        file = tmp_path / "s" / "commitlog" / f"{0:020d}"
        flip(file, place + 100)
        assert [(f.kind, f.offset) for f in verify_store(tmp_path / "s").findings] == [("record", place)]
        flip(file, place + 100)


def test_range_set_is_merged_and_bounded() -> None:
    ranges = RangeSet()
    ranges.add_numbers(np.array([1, 2, 3, 7, 9, 10]))
    ranges.add(4, 7)
    assert ranges.ranges == [(1, 8), (9, 11)]
    ranges.remove(5)
    assert ranges.ranges == [(1, 5), (6, 8), (9, 11)]
    assert ranges.contains(np.array([0, 1, 5, 6, 8, 10, 11])).tolist() == [False, True, False, True, False, True, False]
    ranges.add_numbers(np.arange(0, 100_000, 2))
    assert len(ranges.ranges) <= 10_000
    assert ranges.contains(np.arange(0, 100_000, 2)).all()


@pytest.mark.parametrize("left", range(1, 9))
def test_log_file_cut_where_no_blank_fits_is_repaired(planted: Planted, left: int) -> None:
    """A blank record takes 8 bytes: a cut may leave fewer after the last complete record."""
    log = min((planted.path / "commitlog").iterdir())
    size = log.stat().st_size
    end = max(place + length for place, length in planted.places.values() if place + length <= size)
    os.truncate(log, end + left)
    assert any(file == str(log) for _, file, _, _ in places_found(planted.path))


@pytest.mark.parametrize("name", ["lost-derived-53", "crash-53-kill9"])
def test_crashed_store_without_queues_is_not_clean(
    name: str, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    path = Path(shutil.copytree(golden_store(name), tmp_path / "s"))
    for room in ("consumequeue", "index"):
        shutil.rmtree(path / room, ignore_errors=True)
    found = verify_store(path)
    assert ("missing-unit", str(path / "consumequeue")) in {(one.kind, one.file) for one in found.findings}
    assert found.exit_code == 1
    with MessageStore.open(path, config_of(name)):
        pass
    assert verify_store(path).exit_code == 0


def test_missing_index_of_an_apache_store_is_found(golden_store: Callable[..., Path], tmp_path: Path) -> None:
    path = Path(shutil.copytree(golden_store("basic-53"), tmp_path / "s"))
    with StoreReader(path) as reader:
        message = reader.get_message("orders", 0, 0).messages[0]
    shutil.rmtree(path / "index")
    with MessageStore.open(path, config_of("basic-53")) as store:
        assert store.recovery.healed == ("index",)
        store.put_message(Message("orders", b"more", keys="more"))
        assert [one.phy_offset for one in store.query_message("orders", message.uniq_key)] == [message.phy_offset]
    assert verify_store(path).findings == []
    files = sorted((path / "index").iterdir())
    assert len(files) > 1
    files[0].unlink()
    (path / "rocketflow" / "stop").unlink()
    with MessageStore.open(path, config_of("basic-53")) as store:
        store.put_message(Message("orders", b"more", keys="more"))
    assert {one.kind for one in verify_store(path).findings} == {"missing-entry"}
